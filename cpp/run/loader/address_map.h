// run/loader/address_map.h: what this library keeps of an address of the program: of a lock, of a client's handle.
//
// A hash table with chains. A look-up takes no lock. Changes need one, which is the map's. Nodes come from the arena in blocks and go to a
// list of free nodes, never back, so a look-up that meets a node in another chain reads valid memory. It may miss a node then: it counts
// only if `changes_` stayed the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "run/loader/small_lock.h"

namespace perfschema::run {

// The part of a node that the map needs. Threads: any thread reads; changes under the map's lock. `address` is stored last and cleared
// first; 0 = free.
template <typename Node>
struct Mapped {
  std::atomic<uintptr_t> address;
  std::atomic<Node*> next;  // in the chain, or in the list of free nodes
};

// Node: derived from Mapped<Node>; zeroed memory is a valid free node. Threads: any. A zeroed map is empty.
template <typename Node, uint32_t kBits>
class AddressMap {
 public:
  // Is taken around changes, and around everything that must agree with them.
  SmallLock lock;

  // Returns the node of an address, or nullptr.
  Node* Find(uintptr_t address) {
    const uint64_t changes = changes_.load(std::memory_order_acquire);  // pairs with Remove
    Node* node = HeadOf(address).load(std::memory_order_acquire);       // pairs with Add
    for (uint32_t i = 0; i < kMostSteps && node != nullptr; ++i) {
      if (__builtin_expect(node->address.load(std::memory_order_acquire) == address, 1)) return node;
      node = node->next.load(std::memory_order_acquire);
    }
    if (__builtin_expect(node == nullptr && changes_.load(std::memory_order_relaxed) == changes, 1)) return nullptr;
    const SmallLock::Guard guard(lock);
    return FindLocked(address);
  }

  // All functions below REQUIRE the lock.

  Node* FindLocked(uintptr_t address) const {
    const Node* node = HeadOf(address).load(std::memory_order_relaxed);
    while (node != nullptr && node->address.load(std::memory_order_relaxed) != address) node = node->next.load(std::memory_order_relaxed);
    return const_cast<Node*>(node);
  }

  // Adds a node. fill(node) completes it before it can be found. Returns nullptr without memory. REQUIRES: the address has none.
  template <typename Fill>
  Node* Add(uintptr_t address, Fill fill) {
    Node* const node = Take();
    if (node == nullptr) return nullptr;
    fill(*node);
    std::atomic<Node*>& head = HeadOf(address);
    node->next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
    node->address.store(address, std::memory_order_release);
    head.store(node, std::memory_order_release);  // pairs with Find
    return node;
  }

  // Removes a node of the map. Its contents stay until the next Add().
  void Remove(Node& node) {
    std::atomic<Node*>* link = &HeadOf(node.address.load(std::memory_order_relaxed));
    node.address.store(0, std::memory_order_release);
    while (link->load(std::memory_order_relaxed) != &node) link = &link->load(std::memory_order_relaxed)->next;
    link->store(node.next.load(std::memory_order_relaxed), std::memory_order_release);
    changes_.fetch_add(1, std::memory_order_release);  // before a look-up can follow the free node's link; pairs with Find
    node.next.store(free_, std::memory_order_release);
    free_ = &node;
  }

 private:
  static constexpr uint32_t kMostSteps = 256;  // beyond: the chains change while they are read
  static constexpr size_t kNodesOfBlock = 128;

  // Neighbors in memory are neighbors here, so that a program with its locks in a few pages touches a few pages of the table, too.
  static size_t PlaceOf(uintptr_t address) {
    constexpr uint32_t kUnit = 5;  // locks and handles take 32 bytes or more, most of them
    const uintptr_t unit = address >> kUnit;
    return (unit ^ unit >> kBits ^ unit >> 2 * kBits) & ((size_t{1} << kBits) - 1);
  }
  std::atomic<Node*>& HeadOf(uintptr_t address) { return heads_[PlaceOf(address)]; }
  const std::atomic<Node*>& HeadOf(uintptr_t address) const { return heads_[PlaceOf(address)]; }

  Node* Take() {
    if (free_ == nullptr) {
      auto* const block = static_cast<Node*>(std::calloc(kNodesOfBlock, sizeof(Node)));
      if (block == nullptr) return nullptr;
      for (size_t i = 0; i < kNodesOfBlock; ++i) {
        block[i].next.store(free_, std::memory_order_relaxed);
        free_ = &block[i];
      }
    }
    Node* const node = free_;
    free_ = node->next.load(std::memory_order_relaxed);
    return node;
  }

  std::atomic<Node*> heads_[size_t{1} << kBits] = {};
  std::atomic<uint64_t> changes_{0};
  Node* free_ = nullptr;
};

}  // namespace perfschema::run
