// Where every tile lies, from numbers alone: 100,000 tiles are rows of numbers, not elements.
export const HEAD = 34, GAP = 6;

export class Layout {
  constructor(sections, width, size, caption) {
    this.sections = sections;
    this.columns = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
    size = Math.floor((width + GAP) / this.columns) - GAP; // no room is left over at the right
    this.step = size + GAP;
    this.rowHeight = size + caption + GAP;
    this.tileHeight = size + caption;
    this.size = size;
    this.rows = []; // {y, h, section, start, n}: n = 0 is a heading
    this.images = []; // in the order of the page
    let y = 0;
    sections.forEach((section, s) => {
      this.rows.push({ y, h: HEAD, section: s, start: this.images.length, n: 0 });
      y += HEAD;
      for (let i = 0; i < section.images.length; i += this.columns) {
        const n = Math.min(this.columns, section.images.length - i);
        this.rows.push({ y, h: this.rowHeight, section: s, start: this.images.length + i, n });
        y += this.rowHeight;
      }
      for (const image of section.images) this.images.push(image);
      y += GAP;
    });
    this.height = y;
    this.place = new Map(this.images.map((image, i) => [image, i]));
  }

  // The first row that ends below y.
  rowAt(y) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].y + this.rows[middle].h <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  rowOf(index) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1, row = this.rows[middle];
      if (row.start + row.n <= index) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  box(index) {
    const row = this.rows[this.rowOf(index)];
    return { x: (index - row.start) * this.step, y: row.y, w: this.size, h: this.tileHeight };
  }

  // The place that many rows further up or down, as near to the same column as there is.
  vertical(index, rows) {
    let r = this.rowOf(index);
    const column = index - this.rows[r].start, way = Math.sign(rows);
    for (let left = Math.abs(rows); left > 0; left--) {
      let next = r + way;
      while (this.rows[next] && !this.rows[next].n) next += way;
      if (!this.rows[next]) break;
      r = next;
    }
    return this.rows[r].start + Math.min(column, this.rows[r].n - 1);
  }

  inside(x0, y0, x1, y1) {
    const found = [];
    for (let r = this.rowAt(y0); r < this.rows.length && this.rows[r].y < y1; r++) {
      const row = this.rows[r];
      for (let i = 0; i < row.n; i++) {
        const x = i * this.step;
        if (x < x1 && x + this.size > x0 && row.y + this.tileHeight > y0) found.push(this.images[row.start + i]);
      }
    }
    return found;
  }
}
