// Shows the page's data, each kind of page in its way.

const data = document.getElementById("data");
const pagesByKind = { bench: showReport, eval: showEvaluation, live: showLive };
pagesByKind[document.body.dataset.page](data && JSON.parse(data.textContent));
