// Boxes on an image: drawn, moved and removed by mouse, in pixels of the image itself.
"use strict";
class Boxes {
  constructor(stage, image, canvas, rows, columns, changed) {
    Object.assign(this, { stage, image, canvas, rows, columns, changed, boxes: [], drawn: null, moved: null });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    new ResizeObserver(() => this.paint()).observe(stage);
  }

  at(event) {
    const place = this.canvas.getBoundingClientRect();
    const x = (event.clientX - place.left) / place.width * this.columns;
    const y = (event.clientY - place.top) / place.height * this.rows;
    return [Math.min(Math.max(Math.round(x), 0), this.columns), Math.min(Math.max(Math.round(y), 0), this.rows)];
  }

  down(event) {
    const [x, y] = this.at(event);
    this.canvas.setPointerCapture(event.pointerId);
    const found = this.boxes.find((box) => box.live && x > box.l && x < box.r && y > box.t && y < box.b);
    if (found) this.moved = { box: found, from: { ...found }, x, y };
    else this.drawn = { x, y, l: x, t: y, r: x, b: y, verdict: "blank", live: true };
  }

  move(event) {
    const [x, y] = this.at(event);
    if (this.drawn) {
      const start = this.drawn;
      Object.assign(start, { l: Math.min(start.x, x), r: Math.max(start.x, x), t: Math.min(start.y, y), b: Math.max(start.y, y) });
    } else if (this.moved) {
      const { box, from } = this.moved;
      const dx = Math.min(Math.max(x - this.moved.x, -from.l), this.columns - from.r);
      const dy = Math.min(Math.max(y - this.moved.y, -from.t), this.rows - from.b);
      Object.assign(box, { l: from.l + dx, r: from.r + dx, t: from.t + dy, b: from.b + dy });
    } else return;
    this.paint();
  }

  up() {
    if (this.drawn && this.drawn.r - this.drawn.l > 1 && this.drawn.b - this.drawn.t > 1) {
      const { l, t, r, b } = this.drawn;
      this.changed(null, { l, t, r, b });
    } else if (this.moved) {
      const { box, from } = this.moved;
      if (box.l !== from.l || box.t !== from.t) this.changed(from, { l: box.l, t: box.t, r: box.r, b: box.b });
    }
    this.drawn = null;
    this.moved = null;
    this.paint();
  }

  paint() {
    const place = this.canvas.getBoundingClientRect();
    this.canvas.width = place.width * devicePixelRatio;
    this.canvas.height = place.height * devicePixelRatio;
    const context = this.canvas.getContext("2d");
    context.scale(this.canvas.width / this.columns, this.canvas.height / this.rows);
    for (const box of this.drawn ? [...this.boxes, this.drawn] : this.boxes) {
      const color = box.verdict === "keep" ? "#3fae85" : "#ffb000";
      context.fillStyle = `${color}55`;
      context.fillRect(box.l, box.t, box.r - box.l, box.b - box.t);
      context.strokeStyle = color;
      context.lineWidth = 2 * this.columns / this.canvas.width * devicePixelRatio;
      context.strokeRect(box.l, box.t, box.r - box.l, box.b - box.t);
    }
  }
}
window.Boxes = Boxes;
