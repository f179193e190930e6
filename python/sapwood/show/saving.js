// Adds links to figures that save what is shown as a picture: as SVG, and drawn on a canvas as PNG.
for (const links of document.querySelectorAll("figure .files")) {
  const there = [...links.children].map((link) => link.textContent);
  for (const kind of ["SVG", "PNG"].filter((kind) => !there.includes(kind))) {
    const link = document.createElement("a");
    link.textContent = kind;
    link.href = "#";
    link.onclick = (event) => {
      event.preventDefault();
      const [svg, width, height] = pictureOf(links.closest("figure"));
      const url = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
      const name = `${links.dataset.name}.${kind.toLowerCase()}`;
      if (kind === "SVG") return save(url, name);
      const image = new Image();
      image.onload = () => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [3 * width, 3 * height];
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        save(canvas.toDataURL("image/png"), name);
      };
      image.src = url;
    };
    links.prepend(link);
  }
}

function save(url, name) {
  const link = document.createElement("a");
  [link.href, link.download] = [url, name];
  document.body.append(link);
  link.click();
  link.remove();
}

// The drawings of a figure below each other, with the title and the legend as text.
function pictureOf(figure) {
  const make = (name, attributes, ...inside) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  };
  const parts = [make("text", { x: 14, y: 24, class: "title" }, figure.querySelector("strong").textContent)];
  let height = 38;
  for (const item of figure.querySelectorAll(".legend li")) {
    const line = make("path", { class: "line", d: `M14 ${height + 2}h24` });
    parts.push(make("g", { class: item.querySelector("i").className }, line));
    const label = item.childNodes[1].textContent.trim();
    const summary = item.querySelector("small").textContent;
    parts.push(make("text", { x: 46, y: height + 7 }, summary ? `${label}: ${summary}` : label));
    height += 20;
  }
  for (const svg of figure.querySelectorAll("svg")) {
    if (!svg.getClientRects().length) continue; // the other scale
    const copy = svg.cloneNode(true);
    copy.querySelector(".bins")?.remove();
    parts.push(make("g", { transform: `translate(0 ${height})` }, ...copy.childNodes));
    height += svg.viewBox.baseVal.height;
  }
  const width = 664;
  const paper = make("rect", { x: -12, width, height, fill: "#fff" });
  const style = make("style", {}, STYLE);
  const whole = make("svg", { viewBox: `-12 0 ${width} ${height}`, width, height }, style, paper, ...parts);
  return [new XMLSerializer().serializeToString(whole), width, height];
}
