# SPDX-License-Identifier: Apache-2.0
"""`daso report` as its users run it, and its page in a browser.

Run as: report_page_test.py DASO CLASS...
Where Browser is asked for and none of BROWSERS is installed, the exit code is 77.
"""
import html
import html.parser
import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

DASO = sys.argv[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
FIGURES = {
    "strategy", "nodes", "ranks", "epochs", "steps", "seconds", "samples_per_second", "wait_seconds",
    "exchanges", "staleness_mean", "bytes_between_nodes", "test_loss", "test_accuracy",
}  # of summary.json, on the page
EPOCHS, STEPS = 6, 32  # steps of an epoch


def daso(*arguments: str, folder: pathlib.Path, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([DASO, *arguments], text=True, capture_output=True, timeout=60, cwd=folder)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def records(strategy: str) -> list[dict]:
    """What a run of this strategy would write into metrics.jsonl."""
    found = []
    for step in range(EPOCHS * STEPS):
        epoch, last = step // STEPS, step % STEPS == STEPS - 1
        if step % 10 and not last:
            continue
        cycling = strategy == "daso" and epoch > 0
        record = {
            "step": step, "epoch": epoch, "seconds": 0.2 * (step + 1),
            "skip": 4 if cycling else 0, "wait": 1 if cycling else 0, "learning_rate": 0.1 * math.cos(step / 130),
            "train_loss": 2.3 * math.exp(-step / 90), "wait_seconds": 0.03 * step,
            "bytes_between_nodes": 1000 * step,
        }
        if strategy == "daso":  # sync has no phases
            record["phase"] = "cycling" if cycling else "warmup"
        if cycling:
            record |= {"staleness": 1, "distance": 0.01 / (1 + step)}
        if step > 20:
            record |= {"late_rank": epoch % 4, "late_step": step - 3, "late_seconds": 0.02 + 0.001 * step}
        if last:
            record |= {"test_loss": 1.5 - 0.1 * epoch, "test_accuracy": 1 - 0.7 * math.exp(-epoch)}
        found.append(record)
    return found


def summary(strategy: str) -> dict:
    parts = {"compute": 20.5, "exposed_communication": 8.25, "data": 4.0, "evaluation": 3.5, "checkpoint": 2.15}
    budget = [{"node": n, "seconds": 38.4, **parts, "hidden_communication": 6.0} for n in range(2)]
    return {
        "strategy": strategy, "nodes": 2, "ranks": 4, "epochs": EPOCHS, "steps": EPOCHS * STEPS,
        "seconds": 38.40000000000001, "samples_per_second": 639.9123456789, "wait_seconds": 5.7299999999,
        "exchanges": 41, "staleness_mean": 1.0243902439024390, "bytes_between_nodes": 191000,
        "train_loss": 0.2763, "test_loss": 1.5, "test_accuracy": 0.9952834371, "exit": 0, "out": "run",
        "time_budget": budget,
        "late": [{"rank": r, "node": r // 2, "times": r, "seconds": 0.1 * r} for r in range(4)],
    }


def write_run(folder: pathlib.Path, strategy: str) -> pathlib.Path:
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records(strategy)))
    (folder / "summary.json").write_text(json.dumps(summary(strategy), indent=2))
    (folder / "config.toml").write_text(f'strategy = "{strategy}"\nlr = 0.1\nseed = 1\n')
    (folder / "trace.json").write_text("[]")
    return folder


class Elements(html.parser.HTMLParser):
    """Attributes of all elements, and what makes a browser fetch something."""

    def __init__(self, page: str):
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "data-field" in attributes:
            self.fields.setdefault(attributes["data-field"], []).append(attributes.get("data-value"))
        if tag == "a":
            self.links.append(attributes["href"])
        if "src" in attributes or tag in ("link", "iframe", "object", "embed", "base"):
            self.fetched.append(tag)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-report-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def report(self, *strategies: str) -> str:
        runs = [write_run(self.folder / f"run-{name}", name) for name in strategies]
        daso("report", *map(str, runs), "--to", "page.html", folder=self.folder)
        return (self.folder / "page.html").read_text()


class Command(Case):
    def test_writes_where_it_says(self):
        write_run(self.folder / "a", "daso")
        write_run(self.folder / "b", "sync")
        self.assertIn("a/report.html", daso("report", "a", folder=self.folder).stdout)
        self.assertTrue((self.folder / "a/report.html").exists())
        self.assertIn("report.html", daso("report", "a", "b", folder=self.folder).stdout)
        self.assertTrue((self.folder / "report.html").exists())
        daso("report", "a", "b", "--to", "c.html", folder=self.folder)
        self.assertTrue((self.folder / "c.html").exists())

    def test_refuses_what_is_no_run(self):
        done = daso("report", ".", folder=self.folder, code=2)
        self.assertIn("neither metrics.jsonl nor summary.json", done.stderr)
        self.assertFalse((self.folder / "report.html").exists())


class Page(Case):
    def test_figures_equal_the_summary(self):
        for strategies in (("daso",), ("daso", "sync")):
            with self.subTest(strategies):
                found = Elements(self.report(*strategies)).fields
                self.assertEqual(FIGURES | {"wait_share"}, set(found))
                for name in FIGURES:
                    expected = [summary(strategy)[name] for strategy in strategies]
                    read = [type(value)(text) for value, text in zip(expected, found[name], strict=True)]
                    self.assertEqual(expected, read, name)
                shares = [s["wait_seconds"] / s["seconds"] for s in map(summary, strategies)]
                self.assertEqual(shares, [float(text) for text in found["wait_share"]])
            for strategy in strategies:
                shutil.rmtree(self.folder / f"run-{strategy}")

    def test_fetches_nothing_and_links_to_what_is_there(self):
        page = self.report("daso", "sync")
        elements = Elements(page)
        self.assertEqual([], elements.fetched)
        self.assertEqual([], re.findall(r"@import|url\(|fetch\(|XMLHttpRequest", page))
        self.assertEqual(1, page.count("default-src 'none'"))
        files = [link for link in elements.links if not link.startswith("https://ui.perfetto.dev")]
        self.assertEqual(8, len(files))
        for link in files:
            self.assertTrue((self.folder / link).exists(), link)


def colors(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class Colors(Case):
    def test_text_can_be_read_in_both_themes(self):
        page = self.report("daso")
        light, preferred, chosen = [colors(block) for block in re.findall(r":root[^{]*\{(.*?)\}", page, re.S)]
        self.assertEqual(preferred, chosen, "the two dark themes are one")
        self.assertEqual(set(light), set(preferred))
        texts = ["ink", "muted", "link", *(f"c{i}" for i in range(8))]
        pairs = [(text, "page") for text in texts] + [("ink", "sheet"), ("muted", "sheet"), ("mark-ink", "mark")]
        pairs += [("on-part", part) for part in ("compute", "exposed", "data", "evaluation", "checkpoint")]
        pairs += [(line, phase) for line in ("ink", "c0", "c1") for phase in ("warmup", "cycling", "cooldown")]
        for theme in (light, preferred):
            for text, ground in pairs:
                self.assertGreaterEqual(contrast(theme[text], theme[ground]), 4.5, (text, ground, theme["page"]))


class Browser(Case):
    # Goes before the page's script, and after it.
    WATCH = '<body><script>addEventListener("error", e => { document.body.dataset.error = e.message; });</script>'
    USE = """<script>
const all = selector => [...document.querySelectorAll(selector)];
document.querySelector("[data-axis=AXIS]").click();
for (const svg of all("svg.plot")) {
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 20 }));
}
document.body.dataset.read = all(".readout").map(box => box.textContent).join("|");
document.body.dataset.ground = getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click();
document.body.dataset.other = getComputedStyle(document.body).backgroundColor;
</script></body>"""

    def browse(self, page: str, *flags: str) -> str:
        file = self.folder / "browsed.html"
        file.write_text(page)
        profile = tempfile.mkdtemp(dir=self.folder)
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *flags, file.as_uri()]
        done = subprocess.run(command, text=True, capture_output=True, timeout=90, cwd=self.folder)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def attribute(self, document: str, name: str) -> str:
        found = re.search(rf'<body[^>]* data-{name}="([^"]*)"', document)
        self.assertIsNotNone(found, f"the script did not set data-{name}")
        return html.unescape(found[1])

    def test_draws_in_both_themes(self):
        page = self.report("daso", "sync").replace("<body>", self.WATCH)
        for theme, ground in (("1", "rgb(255, 255, 255)"), ("0", "rgb(20, 23, 27)")):
            with self.subTest(theme):
                flags = ("--dump-dom", f"--blink-settings=preferredColorScheme={theme}")
                document = self.browse(page.replace("</body>", self.USE.replace("AXIS", "seconds")), *flags)
                self.assertEqual([], re.findall("<body[^>]* data-error[^>]*>", document))
                self.assertEqual("true", self.attribute(document, "ready"))
                # Losses, accuracy and rate of two runs; the distance, skip and wait of the one that has them.
                self.assertEqual(9, len(re.findall('<path class="line"[^>]* data-run=', document)))
                self.assertEqual(2, len(re.findall('<path class="line"[^>]* data-field=', document)))
                dots = sum(1 for record in records("sync") if "late_rank" in record)
                self.assertEqual(2 * dots, len(re.findall('<circle class="dot', document)))
                shown = re.sub("<script.*?</script>", "", document, flags=re.S)
                self.assertEqual([], re.findall("NaN|undefined|Infinity|>-0<", shown))
                self.assertEqual(8, self.attribute(document, "read").count("seconds"))  # one schedule: that of daso
                self.assertEqual(ground, self.attribute(document, "ground"))
                self.assertNotEqual(ground, self.attribute(document, "other"))

    def test_reads_what_the_records_say(self):
        use = self.USE.replace("AXIS", "step").replace("box.width / 2", "box.width")
        document = self.browse(self.report("daso").replace("</body>", use), "--dump-dom")
        last = records("daso")[-1]
        loss = self.attribute(document, "read").split("|")[0]
        self.assertEqual(f"step {last['step']} epoch {EPOCHS}{last['train_loss']:.4g}", loss)

    def test_time_is_the_axis_unless_another_is_chosen(self):
        document = self.browse(self.report("daso"), "--dump-dom")
        self.assertIn('<button type="button" data-axis="seconds" aria-pressed="true">', document)
        self.assertIn('text-anchor="end">seconds</text>', document)
        self.assertNotIn('text-anchor="end">step</text>', document)

    def test_names_stand_beside_the_plot_and_cover_nothing(self):
        """Five runs of different lengths whose curves end close together."""
        for i in range(5):
            run = write_run(self.folder / f"run-{i}", "sync")
            lines = [json.dumps(r | {"seconds": r["seconds"] * (1 + i / 4)}) for r in records("sync")]
            (run / "metrics.jsonl").write_text("\n".join(lines))
        runs = [f"run-{i}" for i in range(5)]
        daso("report", *runs, "--to", "page.html", folder=self.folder)
        use = """<script>
const found = [];
for (const svg of document.querySelectorAll("#curve-charts svg")) {
  const boxes = [...svg.querySelectorAll(".end")].map(text => text.getBoundingClientRect());
  const edge = Math.max(...[...svg.querySelectorAll(".line")].map(line => line.getBoundingClientRect().right));
  boxes.forEach((box, i) => {
    if (box.left < edge || box.right > svg.getBoundingClientRect().right) found.push("not beside");
    boxes.slice(i + 1).forEach(other => { if (box.top < other.bottom - 2 && other.top < box.bottom - 2) found.push("covered"); });
  });
  found.push(boxes.length);
}
document.body.dataset.found = found.join(" ");
</script></body>"""
        page = (self.folder / "page.html").read_text().replace("</body>", use)
        document = self.browse(page, "--dump-dom", "--window-size=1280,900")
        self.assertEqual("5 5 5 5", self.attribute(document, "found"))  # losses, accuracy, rate

    def test_seeds_are_a_band(self):
        for i in range(3):
            run = write_run(self.folder / f"seed-{i}", "sync")
            (run / "config.toml").write_text(f'strategy = "sync"\nlr = 0.1\nseed = {i}\n')
            lines = [json.dumps(r | {"train_loss": r["train_loss"] + i}) for r in records("sync")]
            (run / "metrics.jsonl").write_text("\n".join(lines))
        daso("report", "seed-0", "seed-1", "seed-2", "--to", "page.html", folder=self.folder)
        page = (self.folder / "page.html").read_text()
        self.assertIn("<h1>sync, 3 seeds</h1>", page)
        document = self.browse(page, "--dump-dom")
        self.assertEqual("true", self.attribute(document, "ready"))
        self.assertEqual(4, len(re.findall('<path class="line"[^>]* data-run=', document)))  # one for the three
        self.assertEqual(3, len(re.findall('<path class="seeds"', document)))  # losses and accuracy

    def test_a_strategy_without_phases_has_no_schedule(self):
        for strategy, hidden in (("sync", 1), ("daso", 0)):
            document = self.browse(self.report(strategy).replace("<body>", self.WATCH), "--dump-dom")
            self.assertEqual([], re.findall("<body[^>]* data-error[^>]*>", document))
            self.assertEqual("true", self.attribute(document, "ready"))
            self.assertEqual(hidden, len(re.findall('<section id="schedule"[^>]* hidden', document)), strategy)

    def test_takes_a_run_of_an_old_version(self):
        run = write_run(self.folder / "old", "daso")
        kept = ("step", "epoch", "phase", "skip", "wait", "learning_rate", "train_loss", "test_accuracy")
        lines = [json.dumps({k: r[k] for k in kept if k in r}) for r in records("daso")]
        (run / "metrics.jsonl").write_text("\n".join(lines))
        daso("report", "old", folder=self.folder)
        page = (run / "report.html").read_text().replace("<body>", self.WATCH)
        document = self.browse(page, "--dump-dom")
        self.assertEqual([], re.findall("<body[^>]* data-error[^>]*>", document))
        self.assertEqual("true", self.attribute(document, "ready"))
        self.assertEqual(3, len(re.findall('<path class="line"[^>]* data-run=', document)))
        self.assertEqual(1, len(re.findall('<div class="switch"[^>]* hidden', document)))

    def test_fits_a_phone(self):
        page = html.escape(self.report("daso", "sync"))
        measure = "const d = f.contentDocument.documentElement; document.body.dataset.width = d.clientWidth + ' ' + d.scrollWidth"
        frame = f'<body><iframe id="f" onload="{measure}" style="border:0;width:390px;height:900px" srcdoc="{page}"></iframe></body>'
        width = self.attribute(self.browse("<!DOCTYPE html>" + frame, "--dump-dom", "--hide-scrollbars"), "width")
        self.assertEqual("390 390", width)

    def test_can_be_pictured(self):
        self.browse(self.report("daso"), "--screenshot=page.png", "--window-size=1280,900", "--hide-scrollbars")
        picture = (self.folder / "page.png").read_bytes()
        self.assertEqual((1280, 900), struct.unpack(">II", picture[16:24]))
        self.assertGreater(len(picture), 20000)  # an empty one has some 5,000 bytes


if __name__ == "__main__":
    if "Browser" in sys.argv and BROWSER is None:
        print(f"skipped: none of {', '.join(BROWSERS)} is installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
