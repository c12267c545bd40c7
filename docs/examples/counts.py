"""Four threads add the words of a long text to one dict."""

import threading

WORDS = [f"word {number}" for number in range(200_000)]
total: dict[str, int] = {}


def count() -> None:
    page = dict.fromkeys(WORDS, 1)
    for _ in range(10):
        total.update(page)


threads = [threading.Thread(target=count) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(total))
