// Fills an index of hnswlib with random points from several threads, then saves and loads it.
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hnswlib/hnswlib.h"

int main(int argc, char** argv) {
  const size_t points = argc > 1 ? std::stoul(argv[1]) : 30000;
  const unsigned threads = argc > 2 ? std::stoul(argv[2]) : 4;
  constexpr size_t kDimensions = 16;
  std::vector<float> data(points * kDimensions);
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform;
  for (float& value : data) value = uniform(random);

  hnswlib::L2Space space(kDimensions);
  hnswlib::HierarchicalNSW<float> index(&space, points, 16, 100);
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < threads; ++worker)
    workers.emplace_back([&, worker] {
      for (size_t at = worker; at < points; at += threads) index.addPoint(&data[at * kDimensions], at);
    });
  for (std::thread& worker : workers) worker.join();
  index.saveIndex("index.bin");
  hnswlib::HierarchicalNSW<float> loaded(&space, "index.bin");
  std::printf("%zu points\n", size_t{loaded.cur_element_count});
}
