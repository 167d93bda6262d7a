/** A chart as a picture: the drawing under its title, in the colours that are on screen. */
export async function savePng(canvas: HTMLCanvasElement, title: string, note: string): Promise<void> {
  const ratio = devicePixelRatio;
  const head = 44 * ratio;
  const picture = document.createElement("canvas");
  picture.width = canvas.width;
  picture.height = canvas.height + head;
  const ctx = picture.getContext("2d");
  if (ctx === null) return;
  const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  ctx.fillStyle = color("--paper");
  ctx.fillRect(0, 0, picture.width, picture.height);
  ctx.fillStyle = color("--ink");
  ctx.font = `600 ${13 * ratio}px "Inter Variable", sans-serif`;
  ctx.fillText(title, 12 * ratio, 18 * ratio);
  ctx.fillStyle = color("--ink-2");
  ctx.font = `${11 * ratio}px "Inter Variable", sans-serif`;
  ctx.fillText(note, 12 * ratio, 34 * ratio, picture.width - 24 * ratio);
  ctx.drawImage(canvas, 0, head);
  const blob = await new Promise<Blob | null>((resolve) => picture.toBlob(resolve, "image/png"));
  if (blob === null) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.png`;
  link.click();
  URL.revokeObjectURL(link.href);
}
