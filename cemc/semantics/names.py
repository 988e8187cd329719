"""Which names are free. The lists are literal so that compiling imports neither torch nor anything else; a test
compares them with torch."""

from __future__ import annotations

import builtins
import keyword
import sys

RESERVED = frozenset(
    """
    energy axis state given positive param const function update repeat if and or not in grad integral input int where
    """.split()
)

MODULE_ATTRIBUTES = frozenset(
    """
    T_destination __annotations__ __call__ __class__ __delattr__ __dict__ __dir__ __doc__ __eq__ __format__ __ge__
    __getattr__ __getattribute__ __getstate__ __gt__ __hash__ __init__ __init_subclass__ __le__ __lt__ __module__
    __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __str__ __subclasshook__
    __weakref__ _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook _load_from_state_dict
    _load_state_dict_post_hooks _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules
    _named_members _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook
    _register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks
    _state_dict_pre_hooks _version _wrapped_call_impl add_module apply bfloat16 buffers call_super_init children
    compile cpu cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
    get_submodule half ipu load_state_dict modules mtia named_buffers named_children named_modules named_parameters
    parameters register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook
    register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty
    train training type xpu zero_grad
    """.split()
)
"""Attributes of torch.nn.Module: a parameter of such a name would replace one."""

CLASS_ATTRIBUTES = frozenset("causal energy new_cache reset_parameters".split())
"""What the generated class adds to those (`forward` and `extra_repr` are among them already)."""

METHOD_ARGUMENTS = frozenset("steps cache context name backend device dtype self batch_shape max_tokens".split())

LIBRARIES = frozenset({"torch", "triton", "numpy"})


def why_taken(name: str) -> str | None:
    """Why a name that shows on the generated class is not free, or None."""
    if keyword.iskeyword(name):
        return "a Python keyword"
    if name in MODULE_ATTRIBUTES:
        return "an attribute of torch.nn.Module"
    if name in CLASS_ATTRIBUTES:
        return "an attribute of the generated class"
    if name in METHOD_ARGUMENTS:
        return "an argument of the generated class's methods"
    if name.startswith("__"):
        return "private to Python by its underscores"
    return None


def class_name(energy: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in energy.split("_"))


def why_no_energy(name: str) -> str | None:
    """Why an energy cannot have this name, or None."""
    if keyword.iskeyword(name):
        return "it is a Python keyword"
    if hasattr(builtins, name):
        return "it is a Python builtin"
    if name in sys.stdlib_module_names:
        return "it is a module of Python's standard library"
    if name in LIBRARIES:
        return "its file would hide that library"
    if name.startswith("__"):
        return "Python gives such files a meaning of its own"
    made = class_name(name)
    if not made.isidentifier() or keyword.iskeyword(made):
        return f"its class would be called `{made}`, which is not a name"
    if len(name.encode()) > 200:
        return "the name of its file would be too long"
    return None
