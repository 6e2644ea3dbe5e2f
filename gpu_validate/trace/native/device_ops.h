// Kernels, copies and memsets as they ran on the device, from CUPTI's activity records.
#pragma once

namespace stitch {

void record_device_ops();
void flush_device_ops();

}  // namespace stitch
