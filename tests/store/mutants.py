"""tests/store/mutants.py: plants each bug of mutants.sql into a statement on its way to a real
server, and demands that the store test named there fails of it.

Usage: mutants.py --bin FOLDER [WORD…]
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).with_name("mutants.sql")
HEAD = re.compile(r"^-- mutant (\w+) (\w+) (\w+): (.*)$", re.M)
SECONDS_MAX = 120


def mutants():
    text = SOURCE.read_text()
    heads = list(HEAD.finditer(text))
    for head, following in zip(heads, heads[1:] + [None]):
        body = text[head.end() + 1:following.start() if following else len(text)]
        old, new = re.match(r"(.*?)-- stands\n(.*)", body, re.S).groups()
        yield (*head.groups(), old.strip("\n"), new.strip("\n"))


def plant(folder, mutant):
    """The test's exit code with the bug planted, and what it wrote."""
    _, test, statement, _, old, new = mutant
    environment = dict(os.environ)
    if statement == "schema":
        environment["ONCEPAY_MUTANT_SCHEMA"] = new
    else:
        environment.update(ONCEPAY_MUTANT_STATEMENT=statement, ONCEPAY_MUTANT_OLD=old,
                           ONCEPAY_MUTANT_NEW=new)
    run = subprocess.run([folder / test], env=environment, capture_output=True, text=True,
                         timeout=SECONDS_MAX, check=False)
    return run.returncode, run.stdout + run.stderr


def is_found(code, output):
    """By a test that fails: neither a server that refuses the text, nor one that never saw it."""
    return code != 0 and "mutant: planted" in output and "[  FAILED  ]" in output and \
        "syntax error" not in output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    chosen = [mutant for mutant in mutants() if not options.words or mutant[0] in options.words]
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda mutant: plant(options.bin, mutant), chosen)
        for (word, test, _, what, *_), (code, output) in zip(chosen, runs):
            found = is_found(code, output)
            print(f"{word:22} {'found by' if found else 'SURVIVED'} {test}: {what}", flush=True)
            if not found:
                survivors += 1
                print(output[-1500:])
    print(f"{len(chosen)} mutants, {survivors} survived")
    sys.exit(1 if survivors or not chosen else 0)


if __name__ == "__main__":
    main()
