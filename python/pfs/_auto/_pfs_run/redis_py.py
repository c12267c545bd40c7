"""Makes statements of the commands of redis-py: statement/redis-py/get and the like.

A command of a pipeline takes as long as the pipeline.
"""

import _pfs_run_native as native
from _pfs_run.statements import REDIS, Keys, is_shared, literal, message_of, number_of, quiet
from _pfs_run.wrapping import replace

_keys = Keys("redis-py", REDIS)
_SKIPPED = "redis,_pfs_run"
_MOST_ARGUMENTS, _MOST_LETTERS = 20, 64


def _argument(value):
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return literal(text[:_MOST_LETTERS])


@quiet()
def _begin(arguments, is_detached):
    """Begins the statement of a command. Some commands are two words: CLIENT INFO."""
    words = str(arguments[0]).split()
    name = words[0] if words else "other"
    rest = [*words[1:], *arguments[1 : 1 + _MOST_ARGUMENTS]]
    text = name.upper() + " " + ",".join(map(_argument, rest))
    return native.begin(_keys[name], text.rstrip(), None, _SKIPPED, is_detached)


def _end(handle, error):
    if handle is not None:
        native.end(handle, 0, 0, number_of(error) if error else 0, message_of(error) if error else "")


def _commands(original):
    def execute_command(self, *args, **options):
        handle = _begin(args, is_shared()) if args else None
        try:
            result = original(self, *args, **options)
        except BaseException as error:
            _end(handle, error)
            raise
        _end(handle, None)
        return result

    return execute_command


def _commands_async(original):
    async def execute_command(self, *args, **options):
        handle = _begin(args, True) if args else None
        try:
            result = await original(self, *args, **options)
        except BaseException as error:
            _end(handle, error)
            raise
        _end(handle, None)
        return result

    return execute_command


@quiet(())
def _stack(pipeline):
    # An entry of the stack is (arguments, options), or an object with these.
    entries = [entry[0] if isinstance(entry, tuple) else entry.args for entry in pipeline.command_stack]
    return [_begin(arguments, True) for arguments in entries]


def _end_all(handles, results):
    for handle, result in zip(handles, results):  # noqa: B905 (older interpreters have no strict)
        _end(handle, result if isinstance(result, Exception) else None)


def _pipeline(original):
    def execute(self, raise_on_error=True):
        handles = _stack(self)
        try:
            results = original(self, raise_on_error)
        except BaseException as error:
            _end_all(handles, [error] * len(handles))
            raise
        _end_all(handles, results)
        return results

    return execute


def _pipeline_async(original):
    async def execute(self, raise_on_error=True):
        handles = _stack(self)
        try:
            results = await original(self, raise_on_error)
        except BaseException as error:
            _end_all(handles, [error] * len(handles))
            raise
        _end_all(handles, results)
        return results

    return execute


def _client(module):
    replace(module.Redis, "execute_command", _commands)
    replace(module.Pipeline, "immediate_execute_command", _commands)
    replace(module.Pipeline, "execute", _pipeline)


def _asyncio_client(module):
    replace(module.Redis, "execute_command", _commands_async)
    replace(module.Pipeline, "immediate_execute_command", _commands_async)
    replace(module.Pipeline, "execute", _pipeline_async)


PATCHES = {"redis.client": _client, "redis.asyncio.client": _asyncio_client}
