"""Four threads count the letters of words into one dict."""

import threading

WORDS = ["free", "threads", "share", "one", "dict"] * 4000
total: dict[str, int] = {}


def count() -> None:
    for _ in range(20):
        letters = dict.fromkeys(WORDS, 1)
        letters.update({f"{word}{place}": 1 for place, word in enumerate(WORDS)})
        total.update(letters)


threads = [threading.Thread(target=count) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(total))
