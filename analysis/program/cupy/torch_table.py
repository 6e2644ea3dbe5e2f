"""What PyTorch's functions and methods do, as far as order and memory go.

Sources: PyTorch 2 reference, "CUDA semantics" and `torch.cuda`: `Stream` does not block with the default stream, operations run on
the current stream, copies between host and device wait unless `non_blocking=True`, memory goes back to the allocator in order of
the stream that it was allocated on unless `record_stream` names another one.
"""

from __future__ import annotations

FACTORIES = frozenset(
    {
        "zeros",
        "ones",
        "full",
        "rand",
        "randn",
        "randint",
        "randperm",
        "arange",
        "linspace",
        "logspace",
        "eye",
        "tensor",
        "empty",
    }
)
LIKE = frozenset({"zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like", "empty_like"})
OF_HOST = frozenset({"from_numpy", "frombuffer"})  # the same memory
# no work for the device, no wait
NEUTRAL = frozenset(
    {
        "torch.device",
        "torch.no_grad",
        "torch.enable_grad",
        "torch.inference_mode",
        "torch.set_grad_enabled",
        "torch.manual_seed",
        "torch.autocast",
        "torch.amp.autocast",
        "torch.cuda.amp.autocast",
        "torch.set_float32_matmul_precision",
        "torch.Size",
        "torch.is_tensor",
        "torch.finfo",
        "torch.iinfo",
        "torch.cuda.is_available",
        "torch.cuda.device_count",
        "torch.cuda.current_device",
        "torch.cuda.get_device_name",
        "torch.cuda.get_device_properties",
        "torch.cuda.manual_seed",
        "torch.cuda.manual_seed_all",
        "torch.cuda.memory_allocated",
        "torch.cuda.max_memory_allocated",
        "torch.cuda.reset_peak_memory_stats",
        "torch.cuda.nvtx.range_push",
        "torch.cuda.nvtx.range_pop",
        "torch.cuda.nvtx.range",
    }
)
# the size of the result depends on the data, or a number for the host is made, so the host waits
WAITING = frozenset(
    {
        "nonzero",
        "argwhere",
        "unique",
        "unique_consecutive",
        "masked_select",
        "allclose",
        "equal",
        "bincount",
        "is_nonzero",
    }
)
# methods of a tensor whose result shares its memory
VIEWS = frozenset(
    {
        "view", "reshape", "t", "transpose", "permute", "squeeze", "unsqueeze", "expand", "expand_as", "flatten", "detach",
        "contiguous", "narrow", "diagonal", "requires_grad_", "unfold", "view_as", "swapaxes", "movedim", "ravel", "select",
    }
)  # fmt: skip
# methods of a tensor that say something about it
FACTS = frozenset(
    {
        "size",
        "dim",
        "numel",
        "stride",
        "element_size",
        "is_contiguous",
        "nelement",
        "is_floating_point",
        "is_pinned",
        "get_device",
    }
)
DOWNLOADS = frozenset({"cpu", "item", "tolist", "numpy"})
# methods of a module that give the module itself
MODULE_ITSELF = frozenset({"cuda", "to", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_"})


def is_module(name: str) -> bool:
    """`torch.nn.Linear`: called later like a function on tensors."""
    last = name.rsplit(".", 1)[-1]
    return name.startswith("torch.nn.") and last[:1].isupper() and "Parameter" not in last
