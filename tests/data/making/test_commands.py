"""`python -m data.making`: its commands, and the error if the extra is missing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_command_without_its_extra_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys\nfor name in ('rdkit', 'tblite'):\n    sys.modules[name] = None\n"
        "from data.making.__main__ import app\napp()"
    )
    command = [sys.executable, "-c", script, "molecular", "--out", str(tmp_path / "data")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert 'is not installed. Run pip install "bandgap[datagen]" first.' in result.stderr
    assert "Traceback" not in result.stderr
