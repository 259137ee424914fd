"""Print the figures of all attacks: ``python -m tests.attacks``."""

from itertools import groupby

from tests.attacks.catalogue import figures

if __name__ == "__main__":
    for (family, attack, broken), rows in groupby(figures(), lambda row: (row["family"], row["attack"], row["broken"])):
        print(f"[{family}] {attack}\n    {'broken copy':34} {broken}")
        for row in rows:
            print(f"    {row['target']:34} {row['ours']}", flush=True)
