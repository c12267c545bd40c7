// run/python/python_requests.cpp: statements of the requests that a Python program answers as WSGI, and sends.
//
// A request passes here at each of its steps, and a Python function at each of them would cost more than the statement itself. So a step is
// one call of the layer: what is remembered from step to step is in lists and functions of Python, which its collector knows.
//
//   answers:  begin_wsgi() -> the program's application, with `start_response` in between -> end_wsgi()
//   sends:    putrequest() -> ask() -> the headers of the response -> take_asked() -> end()
//             a client's own function -> begin_sent() -> the headers of the response -> end()
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "run/protocols/clients.h"
#include "run/protocols/decoder.h"
#include "run/python/python_statements.h"

namespace perfschema::run {
namespace {

// What the values of a program must not do is raise: a statement that cannot be begun is not recorded. The first time is noted. nullptr:
// the exception is not theirs, such as that of a signal's handler.
PyObject* NotRecorded() {
  static std::atomic<bool> is_noted{false};
  if (g_py.PyErr_Occurred() != nullptr && g_py.PyErr_ExceptionMatches(*g_py.PyExc_Exception) == 0) return nullptr;
  g_py.PyErr_Clear();
  if (!is_noted.exchange(true) && !IsPlain())
    (void)pfs_log(PFS_LOG_WARNING, "PFS-PYTHON", "run", "a request of unusual values is not recorded");
  return None();
}

// Adds a text to an ASCII text. It may have any characters: what is not ASCII becomes a ?, and a zero, too. Returns false with an
// exception.
bool AddAscii(PyObject* text, std::string* to) {
  intptr_t size = 0;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes != nullptr && size == g_py.PyUnicode_GetLength(text) && std::strlen(bytes) == static_cast<size_t>(size)) {
    to->append(bytes, static_cast<size_t>(size));
    return true;
  }
  if (bytes == nullptr) g_py.PyErr_Clear();
  const Reference<PyObject> encoded(g_py.PyUnicode_AsEncodedString(text, "ascii", "replace"));
  char* ascii = nullptr;
  if (encoded.get() == nullptr || g_py.PyBytes_AsStringAndSize(encoded.get(), &ascii, &size) != 0) return false;
  to->append(ascii, static_cast<size_t>(size));
  std::replace(to->end() - size, to->end(), '\0', '?');
  return true;
}

// Adds a text, or bytes of ASCII, to an ASCII text. Returns false with an exception.
bool AddTextOrBytes(PyObject* object, std::string* to) {
  if (!IsOfType(object, kIsBytes)) return AddAscii(object, to);
  char* bytes = nullptr;
  intptr_t size = 0;
  if (g_py.PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return false;
  to->append(bytes, static_cast<size_t>(size));
  const auto is_other = [](char c) { return c == 0 || (static_cast<unsigned char>(c) & 0x80) != 0; };
  std::replace_if(to->end() - size, to->end(), is_other, '?');
  return true;
}

// Returns a text without the bytes of a character that was cut.
std::string_view WithoutCutCharacter(std::string_view text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.remove_suffix(1);
  return text;
}

// Builds the text of a request, as --decode http has it. `target` begins with a slash.
std::string_view TextOfRequest(const char* method, std::string_view target, CommandText* text) {
  text->Clear();
  text->AddCommand(method, IsHttpMethod(method));
  text->AddPath(target);
  return WithoutCutCharacter(text->text());
}

// Finds the instrument of a method in the layer's table. Returns false with an exception.
bool ReadKey(PyObject* keys, PyObject* method, long* key) {
  const Reference<PyObject> number(g_py.PyObject_GetItem(keys, method));
  return number.get() != nullptr && ReadNumber(number.get(), key);
}

// ---- Requests that the program answers

// What `about`, the first argument of begin_wsgi, has: constants of the layer.
enum About : uint8_t { kKeys, kSkipped, kIsInRequest, kMethod, kRoot, kPath, kQuery, kCaller };
// What start_response remembers. The status and the token may be replaced by another thread while they are read.
enum Answer : uint8_t { kHandle, kStartResponse, kStatus, kToken, kVariable };

// start_response(status, ...): calls the server's, and remembers the status.
PyObject* StartResponse(PyObject* answer, Arguments arguments, intptr_t count, PyObject* names) {
  if (count > 0) (void)g_py.PyList_SetItem(answer, kStatus, NewReference(arguments[0]));
  PyObject* const original = g_py.PyList_GetItem(answer, kStartResponse);
  if (original == nullptr) return nullptr;
  const Reference<PyObject> kept(NewReference(original));
  return g_py.PyObject_Vectorcall(original, arguments, static_cast<size_t>(count), names);
}
const PyMethod kStartResponseMethod = MethodWithNames("start_response", StartResponse, "start_response(status, headers, exc_info=None)");

// Returns what a start_response remembers. nullptr: begin_wsgi() has not made it, and an exception is raised.
PyObject* AnswerOf(PyObject* start) {
  PyObject* const answer = g_py.PyCFunction_GetSelf(start);
  if (answer != nullptr && g_py.PyList_GetItem(answer, kVariable) != nullptr) return answer;
  g_py.PyErr_SetString(*g_py.PyExc_TypeError, "no start_response of begin_wsgi()");
  return nullptr;
}

// Ends the time in which requests inside are not counted. A context that has changed keeps its value.
bool Leave(PyObject* answer) {
  const Reference<PyObject> token(ItemOf(answer, kToken));
  if (IsNone(token.get()) || !IsFirstToLeave(g_py.PyList_GetItem(answer, kHandle))) return true;
  if (g_py.PyContextVar_Reset(g_py.PyList_GetItem(answer, kVariable), token.get()) != 0) g_py.PyErr_Clear();
  return g_py.PyList_SetItem(answer, kToken, None()) == 0;
}

// Finds a text of variables. It may be absent, None or empty: nullptr. Returns false with an exception.
bool ReadVariable(PyObject* variables, PyObject* name, Reference<PyObject>* text) {
  *text = ValueOf(variables, name);
  if (text->get() == nullptr) return g_py.PyErr_Occurred() == nullptr;
  const intptr_t size = IsNone(text->get()) ? 0 : g_py.PyUnicode_GetLength(text->get());
  if (size == 0) *text = nullptr;
  return size >= 0;
}

// Returns the start_response of a request, or nullptr with an exception.
PyObject* BeginAnswer(PyObject* about, PyObject* variables, PyObject* start_response, bool is_detached) {
  const auto part = [about](About at) { return g_py.PyTuple_GetItem(about, at); };
  PyObject* inside = nullptr;
  if (g_py.PyContextVar_Get(part(kIsInRequest), nullptr, &inside) != 0) return nullptr;
  const Reference<PyObject> kept(inside);
  if (g_py.PyObject_IsTrue(inside) != 0) return None();

  Reference<PyObject> method(nullptr), root(nullptr), path(nullptr), query(nullptr), caller(nullptr);
  if (!ReadVariable(variables, part(kMethod), &method) || !ReadVariable(variables, part(kRoot), &root) ||
      !ReadVariable(variables, part(kPath), &path) || !ReadVariable(variables, part(kQuery), &query) ||
      !ReadVariable(variables, part(kCaller), &caller)) {
    return nullptr;
  }
  Beginning it = {};
  it.skipped = TextOf(part(kSkipped));
  it.is_detached = is_detached;
  if (caller.get() != nullptr && (it.traceparent = TextOf(caller.get())) == nullptr) g_py.PyErr_Clear();
  const Reference<PyObject> named(method.get() != nullptr ? NewReference(method.get()) : g_py.PyUnicode_InternFromString("GET"));
  const char* const command = named.get() != nullptr ? TextOf(named.get()) : nullptr;
  if (it.skipped == nullptr || command == nullptr || !ReadKey(part(kKeys), named.get(), &it.key)) return nullptr;
  std::string target;
  if (root.get() != nullptr && !AddAscii(root.get(), &target)) return nullptr;
  if (path.get() == nullptr) target += '/';
  if (path.get() != nullptr && !AddAscii(path.get(), &target)) return nullptr;
  if (query.get() != nullptr) target += '?';
  if (query.get() != nullptr && !AddAscii(query.get(), &target)) return nullptr;
  CommandText text;
  it.text = TextOfRequest(command, target, &text);
  PyObject* const handle = BeginStatement(it);
  if (handle == nullptr || IsNone(handle)) return handle;
  const Reference<PyObject> answer(
      ListOf(handle, NewReference(start_response), None(), None(), NewReference(part(kIsInRequest))));  // in the order of Answer
  if (answer.get() == nullptr) return nullptr;
  PyObject* const function = g_py.PyCFunction_NewEx(&kStartResponseMethod, answer.get(), nullptr);
  if (function == nullptr) return nullptr;
  PyObject* const token = g_py.PyContextVar_Set(part(kIsInRequest), reinterpret_cast<PyObject*>(g_py._Py_TrueStruct));
  if (token != nullptr) {
    (void)g_py.PyList_SetItem(answer.get(), kToken, token);
  } else {
    g_py.PyErr_Clear();
  }
  return function;
}

// The status that an application has given.
struct Status {
  int number;  // 0: it has none
  std::string_view reason;
};
Status StatusOf(std::string_view text) {
  const std::string_view digits = text.substr(0, text.find(' '));
  constexpr size_t kMostDigits = 9;
  const bool is_number =
      digits.size() <= kMostDigits && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  Status status = {0, text.substr(std::min(text.size(), digits.size() + 1))};
  if (is_number) {
    for (const char c : digits) status.number = status.number * 10 + (c - '0');
  }
  return status;
}

constexpr int kLeastError = 400;

bool EndByStatus(PyObject* handle, PyObject* given) {
  if (IsNone(given)) return EndStatement(handle, 0, 0, 0, nullptr);
  intptr_t size = 0;
  const char* bytes = g_py.PyUnicode_AsUTF8AndSize(given, &size);
  Reference<PyObject> encoded(nullptr);
  if (bytes == nullptr) {  // no text, or one that UTF-8 cannot have
    g_py.PyErr_Clear();
    encoded = g_py.PyUnicode_AsEncodedString(given, "utf-8", "replace");
    char* replaced = nullptr;
    if (encoded.get() == nullptr || g_py.PyBytes_AsStringAndSize(encoded.get(), &replaced, &size) != 0) {
      g_py.PyErr_Clear();
      size = 0;
    }
    bytes = size != 0 ? replaced : "";
  }
  const Status status = StatusOf({bytes, static_cast<size_t>(size)});
  if (status.number < kLeastError) return EndStatement(handle, 0, 0, 0, nullptr);
  std::string reason(status.reason);
  std::replace(reason.begin(), reason.end(), '\0', '?');
  return EndStatement(handle, 0, 0, status.number, reason.c_str());
}

// ---- Requests that the program sends

// Takes the statement of a connection out of the table. Returns a handle; nullptr: there is none, perhaps with an exception. Two threads
// may take the same one.
PyObject* Take(PyObject* asked, PyObject* number) {
  const Reference<PyObject> entry(ValueOf(asked, number));
  PyObject* const handle = entry.get() != nullptr ? ItemOf(entry.get(), 0) : nullptr;
  if (handle == nullptr) return nullptr;
  if (g_py.PyDict_DelItem(asked, number) != 0) g_py.PyErr_Clear();
  return handle;
}

// Is called when a connection dies that has got no response: its statement ends with it.
PyObject* Forget(PyObject* entry, PyObject*) {
  const Reference<PyObject> handle(Take(g_py.PyList_GetItem(entry, 0), g_py.PyList_GetItem(entry, 1)));
  g_py.PyErr_Clear();
  return None();
}
const PyMethod kForgetMethod = {"forget", {Forget}, kOneArgument, "forget(reference)"};

// Puts the statement of a connection into the table, while the connection lives. Returns false with an exception.
bool Keep(PyObject* asked, PyObject* number, PyObject* connection, PyObject* handle) {
  const Reference<PyObject> place(ListOf(NewReference(asked), NewReference(number)));
  const Reference<PyObject> forget(place.get() != nullptr ? g_py.PyCFunction_NewEx(&kForgetMethod, place.get(), nullptr) : nullptr);
  PyObject* const weak = forget.get() != nullptr ? g_py.PyWeakref_NewRef(connection, forget.get()) : nullptr;
  if (weak == nullptr) return false;
  const Reference<PyObject> entry(ListOf(NewReference(handle), weak));
  return entry.get() != nullptr && g_py.PyDict_SetItem(asked, number, entry.get()) == 0;
}

// Reads the path of a URL, as http.client may get it. Returns false with an exception.
bool ReadPath(PyObject* url, std::string* path) {
  if (!IsNone(url) && !AddAscii(url, path)) return false;
  if (const size_t scheme = path->find("://"); scheme != std::string::npos) {
    const size_t slash = path->find('/', scheme + 3);
    path->erase(0, slash != std::string::npos ? slash : path->size());
  }
  return true;
}

// Begins the statement of a request to a host, which may be nullptr. Returns a handle or None, or nullptr with an exception.
PyObject* BeginSentTo(PyObject* keys, PyObject* skipped, PyObject* method, PyObject* host, std::string_view path) {
  Beginning it = {};
  it.is_detached = true;
  it.skipped = TextOf(skipped);
  const char* const command = it.skipped != nullptr ? TextOf(method) : nullptr;
  std::string target = "/";
  if (command == nullptr || !ReadKey(keys, method, &it.key) || (host != nullptr && !AddAscii(host, &target))) return nullptr;
  if (!path.starts_with('/')) target += '/';
  target += path;
  CommandText text;
  it.text = TextOfRequest(command, target, &text);
  return BeginStatement(it);
}

// What `about`, the first argument of ask(), has: constants of the layer.
enum AboutAsk : uint8_t { kAskKeys, kAskSkipped, kHost };

// Returns None, or nullptr with an exception.
PyObject* AskOf(PyObject* about, PyObject* asked, PyObject* number, PyObject* connection, PyObject* method, PyObject* url) {
  const auto part = [about](AboutAsk at) { return g_py.PyTuple_GetItem(about, at); };
  const Reference<PyObject> host(g_py.PyObject_GetAttr(connection, part(kHost)));
  std::string path;
  if (host.get() == nullptr || !ReadPath(url, &path)) return nullptr;
  const Reference<PyObject> handle(BeginSentTo(part(kAskKeys), part(kAskSkipped), method, host.get(), path));
  if (handle.get() == nullptr) return nullptr;
  return IsNone(handle.get()) || Keep(asked, number, connection, handle.get()) ? None() : nullptr;
}

// What `about`, the first argument of begin_sent(), has: constants of the layer.
enum AboutSent : uint8_t { kSentKeys, kSentSkipped, kHostOfUrl, kPathOfUrl, kMakeUrl };

// Returns a handle or None, or nullptr with an exception. `client` may be nullptr.
PyObject* SentTo(PyObject* about, PyObject* method, PyObject* address, PyObject* client) {
  const auto part = [about](AboutSent at) { return g_py.PyTuple_GetItem(about, at); };
  if (part(kMakeUrl) == nullptr) return nullptr;  // then there are all
  Reference<PyObject> url(client == nullptr ? NewReference(address) : nullptr);
  if (client != nullptr) {
    const Reference<PyObject> make(g_py.PyObject_GetAttr(client, part(kMakeUrl)));
    if (make.get() == nullptr) return nullptr;
    url = g_py.PyObject_Vectorcall(make.get(), &address, 1, nullptr);
  }
  const Reference<PyObject> host(url.get() != nullptr ? g_py.PyObject_GetAttr(url.get(), part(kHostOfUrl)) : nullptr);
  const Reference<PyObject> path(host.get() != nullptr ? g_py.PyObject_GetAttr(url.get(), part(kPathOfUrl)) : nullptr);
  std::string text;
  if (path.get() == nullptr || !AddTextOrBytes(path.get(), &text)) return nullptr;
  return BeginSentTo(part(kSentKeys), part(kSentSkipped), method, IsNone(host.get()) ? nullptr : host.get(), text);
}

}  // namespace

// request_text(method, target): returns the text of a request.
PyObject* RequestText(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 2, 2)) return nullptr;
  const char* const method = TextOf(arguments[0]);
  const char* const target = method != nullptr ? TextOf(arguments[1]) : nullptr;
  if (target == nullptr) return nullptr;
  CommandText text;
  const std::string_view whole = TextOfRequest(method, target, &text);
  return g_py.PyUnicode_FromStringAndSize(whole.data(), static_cast<intptr_t>(whole.size()));
}

// begin_request(key, method, target, skipped, detached, traceparent=None): as begin(), with the text of request_text().
PyObject* BeginRequest(PyObject*, Arguments arguments, intptr_t count) {
  Beginning it = {};
  std::string target;
  if (!HasCount(count, 5, 6) || !ReadNumber(arguments[0], &it.key)) return nullptr;
  const char* const method = TextOf(arguments[1]);
  if (method == nullptr || !ReadRest(arguments, count, 3, &it) || !AddAscii(arguments[2], &target)) return nullptr;
  CommandText text;
  it.text = TextOfRequest(method, target, &text);
  return BeginStatement(it);
}

// begin_wsgi(about, variables, start_response, detached): begins the statement of a request that a WSGI application answers. Returns what
// the application gets as its start_response. None: it is not recorded, or inside another one.
PyObject* BeginWsgi(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 4, 4)) return nullptr;
  PyObject* const start = BeginAnswer(arguments[0], arguments[1], arguments[2], g_py.PyObject_IsTrue(arguments[3]) > 0);
  return start != nullptr ? start : NotRecorded();
}

// leave_wsgi(start_response): the call has returned, but the request goes on. Requests inside it count, and nothing is nested in it.
PyObject* LeaveWsgi(PyObject*, PyObject* start) {
  PyObject* const answer = AnswerOf(start);
  return answer != nullptr && Leave(answer) && DetachStatement(g_py.PyList_GetItem(answer, kHandle)) ? None() : nullptr;
}

// end_wsgi(start_response, error=None, message=""): ends the statement: with an error, or as the status says that the application has
// given.
PyObject* EndWsgi(PyObject*, Arguments arguments, intptr_t count) {
  long error = 0;
  const bool has_error = count > 1;
  if (!HasCount(count, has_error ? 3 : 1, 3) || (has_error && !ReadNumber(arguments[1], &error))) return nullptr;
  PyObject* const answer = AnswerOf(arguments[0]);
  if (answer == nullptr || !Leave(answer)) return nullptr;
  PyObject* const handle = g_py.PyList_GetItem(answer, kHandle);
  const Reference<PyObject> status(ItemOf(answer, kStatus));
  const bool is_ended =
      has_error ? EndStatement(handle, 0, 0, static_cast<int>(error), BytesOf(arguments[2])) : EndByStatus(handle, status.get());
  return is_ended ? None() : nullptr;
}

// ask(about, asked, connection, method, url): begins the statement of a request that an http.client.HTTPConnection sends. It is kept in the
// dict `asked` until take_asked(), or until the connection dies. The connection's statement before it ends: it has got no response.
PyObject* Ask(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 5, 5)) return nullptr;
  PyObject* const asked = arguments[1];
  PyObject* const connection = arguments[2];
  const Reference<PyObject> number(g_py.PyLong_FromVoidPtr(connection));
  if (number.get() == nullptr) return nullptr;
  const Reference<PyObject> before(Take(asked, number.get()));
  if (before.get() == nullptr && g_py.PyErr_Occurred() != nullptr) return nullptr;
  if (before.get() != nullptr) (void)EndStatement(before.get(), 0, 0, 0, nullptr);
  PyObject* const done = AskOf(arguments[0], asked, number.get(), connection, arguments[3], arguments[4]);
  return done != nullptr ? done : NotRecorded();
}

// take_asked(asked, connection): returns the handle of the statement that the connection has, and forgets it.
PyObject* TakeAsked(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 2, 2)) return nullptr;
  const Reference<PyObject> number(g_py.PyLong_FromVoidPtr(arguments[1]));
  PyObject* const handle = number.get() != nullptr ? Take(arguments[0], number.get()) : nullptr;
  if (handle == nullptr && g_py.PyErr_Occurred() != nullptr) return nullptr;
  return handle != nullptr ? handle : None();
}

// begin_sent(about, method, address, client=None): begins the statement of a request that a client sends to an address: an object that has
// the host and the path, or what the client makes one of. Returns a handle; None: it is not recorded.
PyObject* BeginSent(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 3, 4)) return nullptr;
  const bool has_client = count > 3 && !IsNone(arguments[3]);
  PyObject* const handle = SentTo(arguments[0], arguments[1], arguments[2], has_client ? arguments[3] : nullptr);
  return handle != nullptr ? handle : NotRecorded();
}

}  // namespace perfschema::run
