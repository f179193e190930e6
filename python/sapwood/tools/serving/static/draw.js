// Draw one object of a file with jsroot. The page says which: its data attributes hold the URL, the key and the option.
const place = document.getElementById("drawing");

async function draw() {
  JSROOT.settings.UseStamp = false;
  const file = await JSROOT.openFile(new URL(place.dataset.file, location).href);
  const object = await file.readObject(place.dataset.key);
  if (!object) throw new Error(`the file has no ${place.dataset.key}`);
  await JSROOT.draw(place, object, place.dataset.option);
  JSROOT.registerForResize(place);
}

draw().then(
  () => { place.dataset.state = "drawn"; },
  (error) => {
    place.dataset.state = "failed";
    place.textContent = `jsroot cannot draw this object: ${error?.message ?? error}`;
  },
);
