"""A kernel in the few terms the audit needs; both front-ends produce it.

An instruction assigns registers, may access memory, may wait or arrive, and may jump. How a value
is made is kept only as far as addresses need it: what is added, what is chosen between, what is
multiplied away.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "Access",
    "Assignment",
    "Coherence",
    "Event",
    "Form",
    "Guard",
    "Immediate",
    "Instruction",
    "Jump",
    "JumpKind",
    "Kernel",
    "ModuleConstant",
    "Negated",
    "Number",
    "Operand",
    "Parameter",
    "ParameterArea",
    "ParameterWord",
    "Register",
    "Route",
    "Scalar",
    "SharedWindow",
    "Symbol",
    "ThreadIndex",
]


@dataclass(frozen=True, slots=True)
class Register:
    """A register, a predicate, or a slot of the stack that is used like one."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number in the instruction."""

    value: int


@dataclass(frozen=True, slots=True)
class ParameterWord:
    """What the launch passed, at a byte offset into the parameters; None: anywhere in them."""

    offset: int | None


@dataclass(frozen=True, slots=True)
class ParameterArea:
    """The address of the parameters themselves, plus bytes: a tensor map is passed there."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable of the module."""

    name: str


@dataclass(frozen=True, slots=True)
class ModuleConstant:
    """What a constant of the module holds; the host may have put an address there."""

    name: str


@dataclass(frozen=True, slots=True)
class SharedWindow:
    """An address in shared memory: where the CTA's begins, or a variable there."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class ThreadIndex:
    """A number that only tells the threads of a CTA apart."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that the text does not tell and that depends on nothing else."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Something that is no address: a CTA index, a clock, a size that the driver passes."""


@dataclass(frozen=True, slots=True)
class Negated:
    """Minus a register."""

    operand: "Register"


Operand = (
    Register
    | Immediate
    | ParameterWord
    | ParameterArea
    | Symbol
    | ModuleConstant
    | SharedWindow
    | ThreadIndex
    | Number
    | Scalar
    | Negated
)


class Form(Enum):
    """How an assignment makes its value from its sources."""

    SUM = "sum"
    """All sources, plus the product of the factors: an address stays one."""
    CHOICE = "choice"
    """One of the sources."""
    MIX = "mix"
    """Anything else; the result is no address."""
    FLAG = "flag"
    """Whether the source is true, or not zero."""
    LOADED = "loaded"
    """What memory held."""
    PARAMETER = "parameter"
    """The parameter that lies at an address."""
    OUTCOME = "outcome"
    """True when the wait that this instruction tries has succeeded."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One register gets a value."""

    register: str
    form: Form
    sources: tuple[Operand, ...] = ()
    factors: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition: a predicate, or its opposite."""

    register: str
    negated: bool = False


class Coherence(Enum):
    """What a load promises about writes of others."""

    PLAIN = "plain"
    NONCOHERENT = "non-coherent"
    STRONG = "strong"
    """Volatile or relaxed: reads memory each time."""
    ACQUIRE = "acquire"


class Route(Enum):
    """How bytes get out of global memory."""

    LOAD = "load"
    ATOMIC = "atomic"
    ASYNC_COPY = "cp.async"
    BULK_COPY = "bulk copy"
    TENSOR_COPY = "TMA tensor copy"
    TEXTURE = "texture"


@dataclass(frozen=True, slots=True)
class Access:
    """A read of global memory."""

    address: tuple[tuple[Operand, ...], ...]
    """Halves of the address, low first; what stands together is added."""
    route: Route = Route.LOAD
    coherence: Coherence = Coherence.PLAIN
    generic: bool = False
    """The address may also lie in shared or local memory."""


class Event(Enum):
    """What an instruction has to do with waiting."""

    DEPENDENCY_WAIT = "griddepcontrol.wait"
    LAUNCH_DEPENDENTS = "griddepcontrol.launch_dependents"
    MBARRIER_TRY = "mbarrier try-wait"
    MBARRIER_ARRIVE = "mbarrier arrive"
    CTA_BARRIER = "bar.sync"
    """All threads of the CTA meet."""


class JumpKind(Enum):
    """Where execution may go next."""

    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    EXIT = "exit"
    UNKNOWN = "unknown"
    """The target is not in the text."""


@dataclass(frozen=True, slots=True)
class Jump:
    """The end of a straight line; taken when all conditions hold."""

    kind: JumpKind
    targets: tuple[str, ...] = ()
    conditions: tuple[Guard, ...] = ()
    link: str | None = None
    """Register that holds the address to return to."""
    maybe: bool = False
    """It may also fall through for a reason that is no condition."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction."""

    at: int
    """Byte offset in SASS, line in PTX."""
    text: str
    guard: Guard | None = None
    assignments: tuple[Assignment, ...] = ()
    access: Access | None = None
    event: Event | None = None
    barrier: tuple[Operand, ...] = ()
    """Address of the mbarrier; what stands together is added."""
    jump: Jump | None = None
    target: tuple[tuple[Operand, ...], ...] = ()
    """Halves of the address of global memory that it writes, low first."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter."""

    ordinal: int
    offset: int
    """In bytes, from the start of the parameters."""
    size: int
    """In bytes."""


@dataclass(frozen=True)
class Kernel:
    """One kernel with the subroutines in its text."""

    name: str
    target: str
    """Architecture, as "sm_90a"."""
    dialect: str
    """"SASS" or "PTX"."""
    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """Label -> index of the instruction that it stands before."""

    def parameter_at(self, offset: int) -> Parameter | None:
        """The parameter that holds a byte of the parameters."""
        for parameter in self.parameters:
            if parameter.offset <= offset < parameter.offset + parameter.size:
                return parameter
        return None
