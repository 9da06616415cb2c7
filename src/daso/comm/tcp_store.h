// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include "daso/comm/store.h"

namespace c10d {
class Store;
}

namespace daso {

// The store as LibTorch's backends want it, which build their groups from it. Only for a Store that
// Store::host() or connect() made: those are c10d's TCPStore.
c10::intrusive_ptr<c10d::Store> c10d_store(const Store& store);

}  // namespace daso
