// What the theme's pages lack for who reads with a keyboard or by ear.

document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// The theme does so for what is seen.
addEventListener("load", () => document.querySelectorAll("pre > code").forEach((code) => (code.tabIndex = 0)));
