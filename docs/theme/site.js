// What the theme's pages lack for who reads with a keyboard or by ear.

document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// The theme does so for what is seen.
addEventListener("load", () => document.querySelectorAll("pre > code").forEach((code) => (code.tabIndex = 0)));
// The theme looks for all that begins like a word: "a" would find every page. Its worker is asked without the little words.
const QUERY = 2, LITTLE = /(?<![^\s])(?:an?|and|by|do|for|from|how|i|in|is|my|of|on|or|the|to|with)\s+(?=\S)/gi, post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  post.call(this, message?.type === QUERY ? { ...message, data: message.data.replace(LITTLE, "") } : message, ...rest);
};
