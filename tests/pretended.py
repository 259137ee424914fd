"""A GPU that is pretended on the CPU, for tests of what runs on one.

A tensor on it says ``cuda:0`` and holds its numbers on the CPU. What a GPU refuses is
refused here: an operation on tensors of two devices, or a generator of the other
device. What a GPU does without a word but slowly is refused too: an index or a number
that lies on the CPU, which would be copied at each call. The error names the line of
the package or of the test that did it. Functions of PyTorch's linear algebra, layers
and optimizers are the CPU's own, so results are equal to the last digits.
"""

import traceback
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

CUDA = torch.device("cuda", 0)
# operations that move numbers between devices because the code says so
MOVES = {"_to_copy", "copy_"}
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
# of which the result is a number on the CPU
READS = {"_local_scalar_dense", "equal", "is_nonzero"}
ROOT = Path(__file__).parents[1]
SYSTEM = torch.Generator


class OnGPU(torch.Tensor):
    """A tensor of the pretended GPU; ``numbers`` is the tensor that holds them."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = is_meta = property(lambda self: False)

    @staticmethod
    def __new__(cls, numbers):
        # PyTorch itself takes it for one on the device "meta", which holds no numbers
        return torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device="meta",
        )

    def __init__(self, numbers):
        self.numbers = numbers

    @property
    def data(self):
        return self.detach()

    # as a layer sets its weights when it is moved
    @data.setter
    def data(self, other):
        torch._C.TensorBase.data.__set__(self, other)
        self.numbers = other.numbers

    def __repr__(self):
        return f"OnGPU({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} on a tensor of a GPU that is pretended no longer")


class Generator(SYSTEM):
    """A generator that says of which device it is."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls)
        made.of = torch.device(device).type
        return made

    device = property(lambda self: torch.device(self.of))


def refuse(what, *, error=RuntimeError):
    """Raise an error that names the line outside of PyTorch that is to blame."""
    lines = traceback.extract_stack()
    own = [
        line
        for line in lines
        if line.filename != __file__
        and Path(line.filename).is_relative_to(ROOT)
        and "site-packages" not in line.filename
    ]
    last = own[-1] if own else lines[0]
    raise error(f"{what}, at {Path(last.filename).name}:{last.lineno}")


def hidden(value):
    """The device that PyTorch is told of in the place of a GPU, which it lacks."""
    if isinstance(value, str | torch.device) and torch.device(value).type == "cuda":
        return torch.device("meta")
    return value


class Calls(TorchFunctionMode):
    """Functions of PyTorch as they are called: devices by name, and generators."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("numpy", "__array__") and isinstance(args[0], OnGPU):
            refuse("numpy() of a tensor on cuda:0; use cpu() first", error=TypeError)
        given = kwargs.get("generator")
        if given is not None:
            wanted = kwargs.get("device", "cpu")
            if args and isinstance(args[0], torch.Tensor):
                wanted = args[0].device
            of, wanted = getattr(given, "of", "cpu"), torch.device(wanted).type
            if of != wanted:
                refuse(f"{name}: a generator of {of} for a tensor of {wanted}")
        kwargs["device"] = hidden(kwargs.get("device"))
        if kwargs["device"] is None:
            del kwargs["device"]
        if name == "cuda":
            func, args = torch.Tensor.to, (args[0], torch.device("meta"))
        if name in ("to", "new_empty", "new_zeros", "new_ones", "new_full"):
            args = tuple(hidden(value) for value in args)
        if name == "new_tensor" and isinstance(args[0], OnGPU):
            kwargs = {"dtype": args[0].dtype, "device": torch.device("meta"), **kwargs}
            func, name, args = torch.tensor, "tensor", args[1:]
        # numbers of Python or NumPy are read on the CPU, then moved
        if name in ("tensor", "as_tensor", "asarray") and "device" in kwargs:
            where = kwargs.pop("device")
            return func(*args, **kwargs).to(where)
        return func(*args, **kwargs)


class Operations(TorchDispatchMode):
    """What PyTorch's functions are made of, as a device is given it.

    Attributes
    ----------
    launches : int
        Operations that the GPU was given; views are none.
    tolerance : float
        How far results may lie from those of the CPU; sums are those of the CPU.
    """

    tolerance = 1e-9

    # so that PyTorch does not look for a driver
    _mode_key = torch._C._TorchDispatchModeKey.FAKE

    def __init__(self):
        super().__init__()
        self.launches = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        composite = "CompositeImplicitAutograd"
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), composite):
            # in inference mode, functions come before they are taken apart
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        name = func._schema.name.partition("::")[2]
        tensors = [
            x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)
        ]
        there = [tensor for tensor in tensors if isinstance(tensor, OnGPU)]
        here = [tensor for tensor in tensors if not isinstance(tensor, OnGPU)]
        if there and here and name not in MOVES:
            refuse_mixture(name, here)
        told = kwargs.get("device")
        onto_gpu = bool(there) if told is None else torch.device(told).type == "meta"
        if name == "copy_":
            onto_gpu = isinstance(args[0], OnGPU)
        if onto_gpu and told is not None:
            kwargs = {**kwargs, "device": "cpu"}
        numbers, own = tree_map_only(OnGPU, lambda x: x.numbers, (args, kwargs))
        out = func(*numbers, **own)
        if name in READS or not onto_gpu:
            return args[0] if name == "copy_" else out
        self.launches += not func.is_view
        out = tree_map_only(torch.Tensor, OnGPU, out)
        return return_and_correct_aliasing(func, args, kwargs, out) if there else out


def refuse_mixture(name, here):
    """Raise the error of an operation on tensors of both devices, some of them here."""
    if name in INDEXED:
        refuse(f"{name}: an index on the CPU is copied to cuda:0 without a word")
    if all(tensor.ndim == 0 for tensor in here):
        refuse(f"{name}: a number on the CPU is read for cuda:0 without a word")
    shapes = [tuple(tensor.shape) for tensor in here]
    refuse(f"{name}: expected all tensors on cuda:0, but of shapes {shapes} are on cpu")


@contextmanager
def pretended_gpu():
    """Within the block, PyTorch has one GPU; gives its :class:`Operations`."""
    told = {"is_available": True, "get_device_name": "pretended GPU"}
    told |= {"memory_reserved": 0, "memory_allocated": 0, "mem_get_info": (2**30,) * 2}
    with ExitStack() as stack:
        for name, answer in told.items():
            known = mock.Mock(return_value=answer)
            stack.enter_context(mock.patch.object(torch.cuda, name, known))
        stack.enter_context(mock.patch.object(torch, "Generator", Generator))
        # of streams, which an optimizer looks at in each step
        for kind in ("accelerator", "cuda"):
            check = f"_{kind}_graph_capture_health_check"
            patch = mock.patch.object(
                torch.optim.Optimizer, check, mock.Mock(), create=True
            )
            stack.enter_context(patch)
        stack.enter_context(Calls())
        yield stack.enter_context(Operations())
