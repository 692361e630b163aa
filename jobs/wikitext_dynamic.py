"""The paper's Transformer on WikiText-2; clients draw their level anew every round.

python jobs/wikitext_dynamic.py --smoke
ray job submit --working-dir . -- python jobs/wikitext_dynamic.py --set rounds=20
"""

from heterofl_ray.jobs import Smoke, run_preset

SMOKE = Smoke("pydocs-dynamic", ["rounds=10", "evaluate_every=2"])

if __name__ == "__main__":
    raise SystemExit(run_preset("wikitext2-dynamic", SMOKE, __doc__))
