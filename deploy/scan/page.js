// Collects what a person says of the findings, for unloop scan label --from. Nothing is sent.
const verdicts = new Map();
addEventListener("change", ({ target }) => {
  const label = target.closest("[data-session]");
  if (!label) return;
  const { digest, session } = label.dataset;
  verdicts.set(digest + session, { file_digest: digest, session, verdict: target.value });
  const lines = [...verdicts.values()].map((v) => JSON.stringify(v) + "\n");
  document.getElementById("download").href = "data:application/jsonl," + encodeURIComponent(lines.join(""));
  document.getElementById("count").textContent = verdicts.size + (verdicts.size === 1 ? " label" : " labels");
  document.getElementById("labels").hidden = false;
});
