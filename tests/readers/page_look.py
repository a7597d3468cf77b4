"""How a page looks in a browser: its texts, their colours and places, and what contrast is. Nothing here drives a page."""

# WCAG 2.2, level AA: 1.4.3 for text, 1.4.11 for what a figure is made of.
TEXT_CONTRAST, GRAPHIC_CONTRAST = 4.5, 3.0

# Every text with its colour and what lies behind it, in the page and in the figures; colours as drawn.
TEXTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const asDrawn = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const once = (known, key, make) => known.has(key) ? known.get(key) : known.set(key, make()).get(key);
  const colours = new Map(), grounds = new Map();
  const rgba = (colour) => once(colours, colour, () => asDrawn(colour));
  const behind = (at) => at && once(grounds, at, () => {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    return colour[3] === 255 ? colour : behind(at.parentElement);
  });
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { textContent, parentElement: at } = texts.currentNode;
    if (!textContent.trim() || at.closest("script, style, noscript") || !at.getClientRects().length) continue;
    const style = getComputedStyle(at);
    const drawn = at.closest("svg");
    const box = at.getBoundingClientRect();
    const table = at.closest(".scroll");
    if (at.closest(".skip") || (table && table.scrollWidth > table.clientWidth)) continue;
    found.push({ text: textContent.trim(), colour: rgba(drawn ? style.fill : style.color), behind: behind(at), drawn: drawn !== null,
                 opacity: Number(style.opacity), box: [box.left, box.top, box.right, box.bottom] });
  }
  return found;
}"""

# Tables that are cut on the right.
CUT = """() => [...document.querySelectorAll(".scroll")]
  .filter((table) => table.scrollWidth > table.clientWidth).map((table) => table.getAttribute("aria-label"))"""

# The colour of the page's own that has that name.
COLOUR = """name => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = getComputedStyle(probe).color;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}"""


def contrast(one, other):
    def luminance(colour):
        linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
