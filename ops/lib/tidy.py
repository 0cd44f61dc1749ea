"""ops/lib/tidy.py: the rules of the house that a machine can hold cheaply. Run by ops/tidy.sh.

Usage: tidy.py ROOT. Prints "file:line: rule" for each breach; exit 1 if there is one.
ops/tidy.allow holds the exceptions to the rules that count; its numbers may only shrink. A line
with a duration or metric in floating point says "not money".
"""

import pathlib
import re
import sys

FOLDERS = ("pipeline", "config", "store", "adapters", "stages", "ops", "tests")
TEXT = {".c", ".h", ".def", ".sql", ".sh", ".py", ".yaml", ".cmake", ".md", ".txt", ""}
FUNCTION_LINES_MAX = 80
FILE_LINES_MAX = 600
COLUMNS_MAX = 100

SQL = re.compile(
    r'"\s*(SELECT\s|INSERT INTO\s|UPDATE\s+\S+\s+SET\s|DELETE FROM\s|CREATE (TABLE|INDEX|SCHEMA)\s'
    r"|ALTER TABLE\s|DROP (TABLE|SCHEMA)\s|TRUNCATE\s|WITH\s+\w+\s+AS\s)", re.I)
FLOATING = re.compile(r"\b(float|double)\b")
RAW_MINOR = re.compile(r"\.minor\s*[-+*/%]|[-+*/%]=?\s*[\w.]+\.minor\b")
LABELS = re.compile(r"\b(TODO|FIXME|HACK)\b")
HISTORY = re.compile(r"\b(used to be|formerly|was renamed|in an earlier version|we changed)\b", re.I)
TYPEDEF = re.compile(r"\btypedef\s+(struct|enum|union)\b")
ASSERT = re.compile(r"\bassert\s*\(")


def blank_literals(text):
    """The same text with comments and string contents blanked; lines stay where they are."""
    def blank(match):
        kept = match.group(0)
        if kept.startswith('"') or kept.startswith("'"):
            return kept[0] + " " * (len(kept) - 2) + kept[-1]
        return re.sub(r"[^\n]", " ", kept)
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


class Tidy:
    def __init__(self, root):
        self.root = root
        self.breaches = []
        self.guards = {}
        self.allowed = {}
        allow = root / "ops/tidy.allow"
        for line in allow.read_text().splitlines() if allow.exists() else []:
            if line and not line.startswith("#"):
                what, lines = line.rsplit(None, 1)
                self.allowed[what] = int(lines)

    def refuse(self, name, line, rule):
        self.breaches.append(f"{name}:{line}: {rule}")

    def check_length(self, name, line, what, lines, limit):
        allowed = self.allowed.pop(what, None)
        if allowed is not None and lines < allowed:
            self.refuse("ops/tidy.allow", 1, f"{what} has {lines} lines: lower its number")
        elif lines > (allowed or limit):
            self.refuse(name, line, f"{what} has {lines} lines, at most {allowed or limit}")

    def check_functions(self, name, lines):
        start = None
        for number, line in enumerate(lines, 1):
            if line == "{":
                start = number
            elif line == "}" and start:
                signature = " ".join(lines[max(0, start - 6):start - 1])
                found = re.findall(r"(\w+)\s*\(", signature.rsplit(";", 1)[-1].rsplit("}", 1)[-1])
                what = f"{name} {found[0] if found else '?'}"
                self.check_length(name, start, what, number - start - 1, FUNCTION_LINES_MAX)
                start = None

    def check_text(self, name, text):
        if text and not text.endswith("\n"):
            self.refuse(name, text.count("\n") + 1, "no newline at the end")
        for number, line in enumerate(text.splitlines(), 1):
            if "\t" in line or "\r" in line or line != line.rstrip():
                self.refuse(name, number, "tab, carriage return or blank at the end of a line")
            if name == "ops/lib/tidy.py":
                continue
            if LABELS.search(line):
                self.refuse(name, number, "a label for later; an issue is the place for it")
            if HISTORY.search(line):
                self.refuse(name, number, "history; comments say what is and why")

    def check_c(self, name, text):
        path = pathlib.PurePath(name)
        raw, code = text.splitlines(), blank_literals(text).splitlines()
        if name not in "\n".join(raw[:3]):
            self.refuse(name, 1, 'opens with "path: purpose"')
        if path.suffix == ".h":
            guard = re.search(r"^#ifndef (ONCEPAY_\w+_H)\n#define \1$", text, re.M)
            if not guard or self.guards.setdefault(guard.group(1), name) != name:
                self.refuse(name, 1, "an include guard of its own, ONCEPAY_…_H")
        low = path.parts[0] in ("pipeline", "config", "store", "adapters", "stages")
        floating = []
        for number, (line, bare) in enumerate(zip(raw, code), 1):
            if len(line) > COLUMNS_MAX:
                self.refuse(name, number, f"{len(line)} columns, at most {COLUMNS_MAX}")
            if SQL.search(line) and path.parts[0] != "tests" and name != "store/migrate.c":
                self.refuse(name, number, "SQL stands in store/sql and store/migrations")
            if "//" in bare:
                self.refuse(name, number, "comments are /* … */")
            if TYPEDEF.search(bare):
                self.refuse(name, number, "struct x, no typedef")
            if ASSERT.search(bare) and path.parts[0] != "tests":
                self.refuse(name, number, "assert vanishes in a release: INVARIANT")
            if low and FLOATING.search(bare) and "not money" not in line:
                floating.append(number)
            if low and not name.startswith("pipeline/money.") and RAW_MINOR.search(bare.replace("->", ".")):
                self.refuse(name, number, "arithmetic on amounts is in pipeline/money.c")
        if floating:
            self.check_length(name, floating[0], f"{name} floating-point", len(floating), 0)
        self.check_functions(name, code)
        self.check_length(name, len(raw), name, len(raw), FILE_LINES_MAX)

    def run(self):
        files = [p for f in FOLDERS for p in sorted((self.root / f).rglob("*")) if p.is_file()]
        for path in files:
            if path.suffix not in TEXT or "__pycache__" in path.parts:
                continue
            name = str(path.relative_to(self.root))
            text = path.read_text(encoding="utf-8")
            self.check_text(name, text)
            if path.suffix in (".c", ".h"):
                self.check_c(name, text)
        for what in self.allowed:
            self.refuse("ops/tidy.allow", 1, f"{what} needs no exception any more")
        return self.breaches


if __name__ == "__main__":
    found = Tidy(pathlib.Path(sys.argv[1])).run()
    print("\n".join(found)) if found else None
    sys.exit(1 if found else 0)
