"""The paper's Transformer on WikiText-2; a client keeps its level for the whole run.

python jobs/wikitext_fix.py --smoke
ray job submit --working-dir . -- python jobs/wikitext_fix.py --set rounds=20
"""

from heterofl_ray.jobs import Smoke, run_preset

SMOKE = Smoke("pydocs-dynamic", ["assignment=fix", "rounds=10", "evaluate_every=2"])

if __name__ == "__main__":
    raise SystemExit(run_preset("wikitext2-fix", SMOKE, __doc__))
