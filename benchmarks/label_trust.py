"""How far the labels of `appl label` can be trusted: calibration, acceptance, strangers.

    python benchmarks/label_trust.py run DOMAINS OUT.csv --encoder efficientnet_lite0 --episodes 6
    python benchmarks/label_trust.py table OUT.csv
    python benchmarks/label_trust.py figure FIGURE.png OUT.csv …

DOMAINS is a folder of class-folder trees. Each task has 5 classes with 5 examples and a pile of 75
images in uneven shares, and beside them 15 images of classes that have no example, where the data
set has any left. OUT.csv gets one row per image; what is there already is not done again. The prior
temperature and the novelty threshold were chosen on the development domains with it; on the
targets it shows what they are worth.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from _measuring import Row, command_line, key_of, keys_in, measure_all, read_rows, serve
from sklearn.metrics import roc_auc_score

from appl.benchmark.statistics import calibration_error, reliability_bins
from appl.core.episode import Task
from appl.core.seeds import generator_for
from appl.datasets.episodes import draw_episode
from appl.datasets.listing import list_folder
from appl.datasets.packed import pack
from appl.labelling.confidence import fit_temperature
from appl.labelling.fitting import Fitter
from appl.labelling.left_out import LeftOut
from appl.labelling.novelty import NOVEL_AT
from appl.settings.labelling import LabelSettings
from appl.weights import load_pretrained

KEYS = ("encoder", "image_px", "domain", "episode")
COLUMNS = (
    *KEYS, "outside", "right", "raw", "confidence",
    "accepted", "novelty", "frozen_right", "temperature", "best_temperature", "n_left_out",
    "promised", "is_adapted",
)  # fmt: skip
N_OUTSIDE = 15
LEAST_IN_BIN = 10  # fewer labels than this make no dot in a figure


def measure(job: Row) -> list[Row]:
    """Label one task as a user would."""
    torch.set_num_threads(1)
    start = load_pretrained(job["encoder"])
    folder = Path(job["path"])
    data = pack(list_folder(folder), folder.parent / ".packed", job["image_px"])
    draw = draw_episode(data, data.class_names, dirichlet=2.0, index=job["episode"])
    used = data.class_ids[draw.support].unique()
    others = (~torch.isin(data.class_ids, used)).nonzero().flatten()
    order = torch.randperm(len(others), generator=generator_for("strangers", job["episode"]))
    outside = others[order[:N_OUTSIDE]]
    pile = torch.cat([draw.query, outside])
    truth = torch.cat([draw.query_class_ids, torch.full((len(outside),), -1)])
    task = Task(data.images(draw.support), draw.class_ids, data.images(pile))
    settings = LabelSettings(encoder=job["encoder"])
    fitter = Fitter(
        start,
        task,
        torch.arange(len(pile)),
        settings,
        class_names=tuple(map(str, range(task.n_way))),
        example_names=tuple(map(str, range(task.n_support))),
    )
    fit, plain = fitter.adapted(), fitter.frozen()
    judged = fit.model.judge(task.query)
    raw = torch.softmax(judged.scores, 1).amax(1)
    confidence, found = judged.probs.max(1)
    known = truth >= 0
    best = fit_temperature(
        LeftOut(
            known.nonzero().flatten(), truth[known], judged.scores[known], raw[known], raw[known]
        ),
        1.0,
    )
    plain_right = plain.model.judge(task.query).probs.argmax(1) == truth
    accepted = fit.model.acceptance.accepts(confidence)
    return [
        {key: job[key] for key in KEYS}
        | {
            "outside": int(truth[i] < 0),
            "right": int(found[i] == truth[i]),
            "raw": f"{raw[i]:.4f}",
            "confidence": f"{confidence[i]:.4f}",
            "accepted": int(accepted[i]),
            "novelty": f"{judged.novelty[i]:.3f}",
            "frozen_right": int(plain_right[i]),
            "temperature": f"{fit.model.temperature:.3f}",
            "best_temperature": f"{best:.3f}",
            "n_left_out": len(fit.left_out),
            "promised": f"{fit.model.acceptance.promised:.4f}",
            "is_adapted": int(fit.model.is_adapted),
        }
        for i in range(len(pile))
    ]


def jobs(arguments: argparse.Namespace) -> Iterator[Row]:
    """List the tasks that are not in the file yet."""
    done = keys_in(arguments.out, KEYS)
    meta = load_pretrained(arguments.encoder).encoder.meta
    px = arguments.px or meta.label_px or meta.input_px
    for episode in range(arguments.episodes):
        for domain in sorted(arguments.domains.glob("[!.]*/")):
            pack(list_folder(domain), arguments.domains / ".packed", px)
            job = {
                "encoder": Path(arguments.encoder).stem,
                "image_px": px,
                "domain": domain.name,
                "episode": episode,
            }
            if key_of(job, KEYS) not in done:
                yield job | {"path": str(domain)}


def run(arguments: argparse.Namespace) -> None:
    """Measure what is missing; every finished task is on disk."""
    measure_all(jobs(arguments), measure, COLUMNS, arguments.out, arguments.workers)


def table(arguments: argparse.Namespace) -> None:
    """Print what follows from the rows, one line per domain."""
    rows = read_rows(arguments.out)
    print(
        "| domain | tasks | right, frozen | right, adapted | ECE raw | ECE ours | accepted | "
        "wrong and accepted, of all | wrong among accepted | AUROC of novelty | known taken for "
        "strangers | strangers found |"
    )
    print("|" + " --- |" * 12)
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    for domain in [*domains, "all"]:
        chosen = [row for row in rows if domain in ("all", row["domain"])]
        value = {key: np.array([float(row[key]) for row in chosen]) for key in COLUMNS[len(KEYS) :]}
        known = value["outside"] == 0
        right, sure = value["right"][known], value["confidence"][known]
        accepted = value["accepted"][known] == 1
        novel = value["novelty"] > NOVEL_AT
        auroc = "–"
        if (~known).any():
            auroc = f"{roc_auc_score(~known, value['novelty']):.3f}"
        cells = [
            domain,
            str(len({(row["domain"], row["episode"]) for row in chosen})),
            f"{100 * value['frozen_right'][known].mean():.1f}",
            f"{100 * right.mean():.1f}",
            f"{100 * calibration_error(value['raw'][known], right):.1f}",
            f"{100 * calibration_error(sure, right):.1f}",
            f"{100 * accepted.mean():.1f}",
            f"{100 * (accepted & (right == 0)).mean():.1f}",
            f"{100 * (right[accepted] == 0).mean():.1f}" if accepted.any() else "–",
            auroc,
            f"{100 * novel[known].mean():.1f}",
            f"{100 * novel[~known].mean():.1f}" if (~known).any() else "–",
        ]
        print("|", *(f"{cell} |" for cell in cells))
    best = np.array([float(row["best_temperature"]) for row in rows])
    print(f"\nbest temperature: geometric mean {np.exp(np.log(best).mean()):.2f}, "
          f"deviation of its log {np.log(best).std():.2f}")  # fmt: skip
    novelty = np.array([float(r["novelty"]) for r in rows if r["outside"] == "0"])
    print("novelty of known images, 90, 95, 98 %:", np.quantile(novelty, [0.9, 0.95, 0.98]))


def figure(arguments: argparse.Namespace) -> None:
    """Draw a reliability diagram for each file: what was said, and how often it was right."""
    import matplotlib.pyplot as plt

    plt.rcParams["font.size"] = 9
    panels = plt.subplots(1, len(arguments.files), figsize=(4 * len(arguments.files), 4))
    for path, axis in zip(arguments.files, np.atleast_1d(panels[1]), strict=True):
        rows = [row for row in read_rows(path) if row["outside"] == "0"]
        right = [float(row["right"]) for row in rows]
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for column, name, colour in (
            ("raw", "raw", "#b45309"),
            ("confidence", "ours", "#1d4ed8"),
        ):
            sure = [float(row[column]) for row in rows]
            bins = [b for b in reliability_bins(sure, right, 10) if b.n >= LEAST_IN_BIN]
            axis.plot([b.confidence for b in bins], [b.right_share for b in bins], color=colour)
            axis.scatter(
                [b.confidence for b in bins],
                [b.right_share for b in bins],
                s=[4 + 200 * b.n / len(rows) for b in bins],
                color=colour,
                label=f"{name}: {100 * calibration_error(sure, right):.1f} points off",
            )
        axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axis.set_title(f"{rows[0]['encoder']}, {rows[0]['image_px']} px, {len(rows)} images")
        axis.set_xlabel("confidence")
        axis.set_ylabel("share of right labels")
        axis.legend(loc="lower right", frameon=False, markerscale=0.5)
    panels[0].tight_layout()
    panels[0].savefig(arguments.out, dpi=150)


def main() -> None:
    """Read the command line."""
    command = command_line(__doc__, "domains", run, table, figure=(figure, ("out", "files")))
    command.add_argument("--encoder", default="efficientnet_lite0")
    command.add_argument("--px", type=int, default=0)
    command.add_argument("--episodes", type=int, default=6)
    command.add_argument("--workers", type=int, default=2)
    serve(command)


if __name__ == "__main__":
    main()
