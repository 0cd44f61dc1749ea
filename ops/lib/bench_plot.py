"""ops/lib/bench_plot.py: four panels of what ops/bench found, as one SVG: rates by window, CPU by
process, latency by load, cost by stored payments. Panels without data say so.
"""

import html

WIDTH, HEIGHT, MARGIN = 460, 300, 54
COLOURS = {"ceiling": "#8aa", "pipeline": "#27c", "naive": "#c84", "p50": "#27c", "p99": "#c33",
           "p50 slow": "#7ad", "p99 slow": "#e99"}
PROCESS_COLOURS = ("#27c", "#c84", "#393", "#c33", "#86b", "#865", "#d7b", "#888", "#bb2", "#2bc",
                   "#345", "#faa")


def text(x, y, words, size=11, anchor="start", colour="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}">{html.escape(words)}</text>')


def rect(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def round_up(value):
    """The next round number at or above it."""
    step = 1e-3
    while True:
        for factor in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8):
            if value <= step * factor:
                return step * factor
        step *= 10


class Panel:
    """A box with a y axis from zero; inner coordinates are fractions of width, values of y."""

    def __init__(self, title, top, unit):
        self.top = round_up(top or 1)
        self.parts = [text(MARGIN, 22, title + (f", {unit}" if unit else ""), 13)]
        self.plot_width, self.plot_height = WIDTH - MARGIN - 14, HEIGHT - MARGIN - 34
        for i in range(5 if unit else 0):
            value = self.top * i / 4
            y = self.y(value)
            self.parts.append(f'<line x1="{MARGIN}" y1="{y:.1f}" x2="{WIDTH - 14}" y2="{y:.1f}" '
                              'stroke="#ddd"/>')
            self.parts.append(text(MARGIN - 5, y + 4, f"{value:g}", 10, "end", "#555"))

    def x(self, part):
        return MARGIN + part * self.plot_width

    def y(self, value):
        return 34 + self.plot_height * (1 - value / self.top)

    def bar(self, left, right, low, high, colour):
        y = self.y(high)
        self.parts.append(rect(self.x(left), y, self.x(right) - self.x(left), self.y(low) - y, colour))

    def line(self, points, colour):
        places = " ".join(f"{self.x(x):.1f},{self.y(min(y, self.top)):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" '
                          'stroke-width="2"/>')

    def below(self, part, words):
        self.parts.append(text(self.x(part), HEIGHT - MARGIN + 14, words, 10, "middle", "#555"))

    def legend(self, entries):
        x = MARGIN
        y = HEIGHT - MARGIN + 30
        for name, colour in entries:
            if x + 14 + 6.2 * len(name) > WIDTH:
                x, y = MARGIN, y + 14
            self.parts.append(rect(x, y - 8, 9, 9, colour))
            self.parts.append(text(x + 12, y, name, 10))
            x += 24 + 6.2 * len(name)


def empty(title):
    panel = Panel(title, 1, "")
    panel.parts.append(text(WIDTH / 2, HEIGHT / 2, "not measured in this run", 12, "middle", "#888"))
    return panel


def rates(found):
    windows = found.get("windows", {})
    bars = [(kind, w["per_s"]) for kind in ("ceiling", "pipeline", "naive")
            for w in windows.get(kind, [])]
    if not bars:
        return empty("Rate by window")
    panel = Panel("Rate by window", max(v for _, v in bars), "payments per second")
    for i, (kind, value) in enumerate(bars):
        panel.bar((i + 0.15) / len(bars), (i + 0.85) / len(bars), 0, value, COLOURS[kind])
    panel.legend([(k, COLOURS[k]) for k in ("ceiling", "pipeline", "naive") if windows.get(k)])
    return panel


def costs(found):
    windows = found.get("windows", {})
    bars = [(kind, windows[kind][-1]["cpu_us"]) for kind in ("ceiling", "pipeline")
            if windows.get(kind)]
    if not bars:
        return empty("CPU per payment, by process")
    panel = Panel("CPU per payment, by process (last window)",
                  max(sum(cpu.values()) for _, cpu in bars), "us")
    names = sorted({n for _, cpu in bars for n, v in cpu.items() if v >= 1},
                   key=lambda n: -max(cpu.get(n, 0) for _, cpu in bars))
    colour = {n: PROCESS_COLOURS[i % len(PROCESS_COLOURS)] for i, n in enumerate(names)}
    for i, (kind, cpu) in enumerate(bars):
        base = 0
        for name in names:
            value = cpu.get(name, 0)
            panel.bar((i + 0.2) / len(bars), (i + 0.8) / len(bars), base, base + value, colour[name])
            base += value
        panel.below((i + 0.5) / len(bars), f"{kind} {base:.0f}")
    panel.legend([(n, colour[n]) for n in names])
    return panel


def latency(found):
    lines = []
    for part, tail in (("latency", ""), ("latency_slow", " slow")):
        levels = sorted(found.get(part, {}).get("levels", []), key=lambda w: w["per_s"])
        for name in ("p50", "p99"):
            if levels:
                lines.append((name + tail, [(w["per_s"], w[name + "_ms"]) for w in levels]))
    if not lines:
        return empty("Publish to final event")
    panel = Panel("Publish to final event (slow: PSP of 200 ms)",
                  max(y for _, points in lines for _, y in points), "ms")
    right = round_up(max(x for _, points in lines for x, _ in points))
    for name, points in lines:
        panel.line([(x / right, y) for x, y in points], COLOURS[name])
    for i in range(5):
        panel.below(i / 4, f"{right * i / 4:g}/s")
    panel.legend([(name, COLOURS[name]) for name, _ in lines])
    return panel


def growth(found):
    part = found.get("growth", {})
    curve = [(w["stored"], w["cpu_us"]["pg"]) for w in part.get("curve", [])]
    ends = [(name, w["cpu_us"]["pg"]) for name in ("few", "many") for w in part.get(name, [])]
    if not curve and not ends:
        return empty("PostgreSQL CPU per payment, by stored payments")
    right = round_up(max([x for x, _ in curve] + [part.get("stored", 1)]))
    panel = Panel("PostgreSQL CPU per payment, by stored payments",
                  max(y for _, y in curve + ends), "us")
    if curve:
        panel.line([(x / right, y) for x, y in curve], COLOURS["ceiling"])
    for name, value in ends:
        x = 10000 / right if name == "few" else part["stored"] / right
        panel.parts.append(f'<circle cx="{panel.x(x):.1f}" cy="{panel.y(value):.1f}" r="4" '
                           f'fill="{COLOURS["pipeline"]}"/>')
    for i in range(5):
        panel.below(i / 4, f"{right * i / 4:g}")
    panel.legend([("ceiling", COLOURS["ceiling"]), ("pipeline", COLOURS["pipeline"])])
    return panel


def draw(found):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{2 * HEIGHT + 40}" '
           'font-family="sans-serif">', rect(0, 0, 2 * WIDTH, 2 * HEIGHT + 40, "#fff")]
    for i, panel in enumerate((rates(found), costs(found), latency(found), growth(found))):
        out.append(f'<g transform="translate({i % 2 * WIDTH},{i // 2 * (HEIGHT + 20)})">')
        out += panel.parts
        out.append("</g>")
    return "\n".join(out) + "\n</svg>\n"
