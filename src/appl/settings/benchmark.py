"""Settings of a benchmark: rows × targets under one protocol, from a TOML file."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from appl.errors import SettingsError
from appl.settings.checks import check_ranges, setting
from appl.settings.presets import find_preset


@dataclass(frozen=True)
class ProtocolSettings:
    """How episodes are drawn."""

    n_way: int = setting(5, "classes per episode", 2)
    n_shot: int = setting(5, "supports per class", 1)
    n_query: int = setting(15, "queries per class, on average where they are uneven", 1)
    dirichlet: float = setting(
        0.0, "0: as many queries of each class; else shared out by a Dirichlet draw", 0
    )
    seed: int = setting(0, "of all episodes", 0)
    n_ood: int = setting(0, "queries more, of classes outside the episode", 0)
    groups_apart: bool = setting(
        False, "no patient or lesion has images among both supports and queries"
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def identity(self) -> dict[str, Any]:
        """Return what results are stored under: an option added later counts where it is used.

        So results from before it was there keep their keys.
        """
        added = {"n_ood", "groups_apart"}
        return {name: value for name, value in asdict(self).items() if value or name not in added}


@dataclass(frozen=True)
class RowSettings:
    """One method with its own settings; see `appl methods`."""

    method: str
    title: str = ""  # in tables; default: the method's own
    weights: str = ""  # of its own, a .safetensors file; default: the benchmark's
    weights_digest: str = ""  # what they must be; enough for tables where the file is not at hand
    n_episodes: int = setting(0, "0: as many as the benchmark says", 0)
    precision: Literal["fp32", "bf16"] = setting(
        "fp32", "bf16: faster where the processor has units for it; part of the row's identity"
    )
    quote: str = ""  # the paper's row of the same method, which tables set below this one
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class SensitivitySettings:
    """Rows made from a preset of APPL, one setting changed at a time: the paper's four plots.

    Its source has the plots' captions but no axes. The ranges here are ours: they hold every value
    that its text names and reach beyond on both sides.
    """

    preset: str = ""  # none: no such rows
    alpha: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)  # α0
    threshold: tuple[float, ...] = (0.2, 0.3, 0.4, 0.6, 0.8)  # ε
    lambda_coh: tuple[float, ...] = (1e-4, 1e-3, 5e-3, 1e-1, 1.0)
    lambda_dis: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True)
class BenchSettings:
    """A benchmark. `targets` maps the name of a data set, or of a folder, to its title.

    `preset` in its file names a protocol, whose values stand for those that are not given.
    """

    targets: dict[str, str]
    rows: tuple[RowSettings, ...] = ()
    title: str = ""  # of its table; a report joins benchmarks of one title
    reference: str = ""  # title of the row that tables compare with; none: ProtoNet if there
    quote: tuple[str, ...] = ()  # more rows of the paper, which stand below all of ours
    weights: str = "resnet10"
    image_px: int = setting(84, "side of the images", 32)
    margin: float = setting(1.0, "1.15: enlarge by this and cut the centre, as BSCD-FSL does", 1, 2)
    n_episodes: int = setting(600, "of each row on each target", 1)
    protocol: ProtocolSettings = field(default_factory=ProtocolSettings)
    sensitivity: SensitivitySettings = field(default_factory=SensitivitySettings)

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.targets or not (self.rows or self.sensitivity.preset):
            raise SettingsError("a benchmark needs at least one target and one row")

    @classmethod
    def preset(cls, name: str) -> dict[str, Any]:
        """Return the values of a protocol by its name: guo, released or cpu."""
        return find_preset(PROTOCOL_PRESETS, name)

    @property
    def most_episodes(self) -> int:
        """The episodes of the longest row."""
        of_rows = [row.n_episodes or self.n_episodes for row in self.rows]
        return max(of_rows + [self.n_episodes] * bool(self.sensitivity.preset))


PROTOCOL_PRESETS: dict[str, dict[str, Any]] = {
    # Guo et al., 2020 (BSCD-FSL): the images are enlarged to 257 px and cut.
    "guo": {
        "image_px": 224,
        "margin": 1.15,
        "n_episodes": 600,
        "protocol": {"n_way": 5, "n_query": 15},
    },
    # The code that APPL's authors released: 96 px cut to 84, fewer queries than the paper says.
    "released": {
        "image_px": 84,
        "margin": 1.15,
        "n_episodes": 600,
        "protocol": {"n_way": 5, "n_query": 5},
    },
    # What two cores do in an evening; of docs/results.
    "cpu": {
        "image_px": 84,
        "margin": 1.0,
        "n_episodes": 60,
        "protocol": {"n_way": 5, "n_query": 15},
    },
}
