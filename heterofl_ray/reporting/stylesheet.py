"""The look of the HTML page: one column on a phone, two on a desk, ink on paper in print."""

from __future__ import annotations

STYLESHEET = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --back: #f3f5f7; --ink: #22303c; --faint: #5d6a75; --grid: #d5dbe0;
  --accent: #0072b2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #1b2229; --back: #12171c; --ink: #e4e9ed; --faint: #9aa6b0; --grid: #39434c;
    --accent: #56b4e9;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.6rem 0 0.2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 0.5rem; }
p { margin: 0.3rem 0; }
a { color: var(--accent); }
.sub { color: var(--faint); overflow-wrap: anywhere; }
nav { margin: 0.6rem 0 1rem; display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; }
.card {
  background: var(--paper); border: 1px solid var(--grid); border-radius: 8px;
  padding: 1rem; margin: 0 0 1rem; min-width: 0;
}
.figures .card { break-inside: avoid; }
@media (min-width: 62rem) { .figures { columns: 2; column-gap: 1rem; padding-bottom: 1rem; } }
figure { margin: 0; }
figure svg { display: block; width: 100%; height: auto; max-width: 46rem; margin: 0 auto; }
figcaption, .note { color: var(--faint); font-size: 0.9rem; margin-top: 0.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.3rem 0.9rem 0.3rem 0; vertical-align: top; }
thead th { color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--grid); }
tbody tr + tr > * { border-top: 1px solid var(--grid); }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; }
.numbers td { white-space: nowrap; }
.numbers td:first-child { white-space: normal; min-width: 7rem; overflow-wrap: anywhere; }
.facts th { color: var(--faint); font-weight: 400; white-space: nowrap; }
.facts td { overflow-wrap: anywhere; padding-right: 0; }
.swatch {
  display: inline-block; width: 0.75em; height: 0.75em; border-radius: 50%; margin-right: 0.45em;
}
pre {
  background: var(--back); border-radius: 6px; padding: 0.7rem; margin: 0.4rem 0;
  font-size: 0.85rem; white-space: pre-wrap; overflow-wrap: anywhere;
}
summary { cursor: pointer; overflow-wrap: anywhere; }
details + details { margin-top: 0.4rem; }
footer { color: var(--faint); font-size: 0.85rem; margin: 1.2rem 0; }
@media (max-width: 36rem) {
  main { padding: 0.6rem; }
  .card { padding: 0.7rem; }
  .facts tr > * { display: block; padding: 0; border: 0; }
  .facts th { font-size: 0.85rem; padding-top: 0.45rem; }
  .facts tbody tr + tr > * { border: 0; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --back: #ffffff; --ink: #000000; --faint: #444444; --grid: #bbbbbb;
  }
  body { font-size: 11pt; }
  nav { display: none; }
  .card { border: 0; padding: 0; break-inside: avoid; }
  .figures { columns: 1; padding: 0; }
  figure svg { max-width: 15cm; }
  .scroll { overflow: visible; }
  table { font-size: 8.5pt; }
}
"""
