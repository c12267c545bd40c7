// A report of 20,000 lines is flushed at each line; mended, when it is whole.
#include <fstream>
#include <string>
struct Report {
  std::ofstream out{"report.txt"};
  bool mended;
  void line(int number, const std::string& what) {
    out << number << ": " << what << '\n';
    if (!mended) out.flush();  // FAULT
  }
};
int main(int argc, char**) {
  Report report;
  report.mended = argc > 1;
  for (int i = 0; i < 20000; i++) report.line(i, "sold");
}
