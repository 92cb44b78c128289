// Guess, run, reveal, without a kernel: what follows a guess is closed until somebody has guessed. #answers opens all of it.

{
  const guesses = [...document.querySelectorAll(".guess")], reveals = [...document.querySelectorAll(".reveal")];
  const key = (name) => `guess ${location.pathname} ${name}`;
  const keep = (name, choice) => {
    try {
      sessionStorage.setItem(key(name), choice);
    } catch {
      /* A page from disk may keep nothing. */
    }
  };
  const kept = (name) => {
    try {
      return sessionStorage.getItem(key(name));
    } catch {
      return null;
    }
  };

  const open = (name, play) => {
    const opened = reveals.filter((each) => each.dataset.guess === name && each.dataset.closed !== undefined);
    for (const each of opened) delete each.dataset.closed;
    if (play) opened.flatMap((each) => [...each.querySelectorAll("netsim-replay")])[0]?.setAttribute("play", "");
  };

  const choose = (guess, choice, play) => {
    const buttons = [...guess.querySelectorAll("button")], right = buttons.findIndex((each) => each.dataset.right !== undefined);
    buttons.forEach((each, i) => {
      each.setAttribute("aria-pressed", String(i === choice));
      each.className = i === right ? "right" : i === choice ? "wrong" : "";
    });
    const said = choice === right ? "Right" : choice < 0 ? "It is" : "No, it is";
    guess.querySelector("output").textContent = `${said}: ${buttons[right].textContent}.`;
    open(guess.id, play);
  };

  for (const each of reveals) {
    const veil = document.createElement("p"), button = document.createElement("button");
    veil.className = "veil";
    button.textContent = "Your guess first";
    button.addEventListener("click", () => document.getElementById(each.dataset.guess)?.querySelector("button").focus());
    veil.append(button);
    each.prepend(veil);
    each.dataset.closed = "";
  }
  for (const guess of guesses) {
    guess.append(document.createElement("output"));
    const choice = kept(guess.id);
    [...guess.querySelectorAll("button")].forEach((button, i) =>
      button.addEventListener("click", () => {
        keep(guess.id, i);
        choose(guess, i, true);
      }),
    );
    if (choice !== null) choose(guess, Number(choice), false);
  }

  // Who comes by a link to what is closed has asked for it.
  const follow = () => {
    if (location.hash === "#answers") guesses.forEach((guess) => choose(guess, -1, false));
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1))), closed = target?.closest(".reveal[data-closed]");
    if (!closed) return;
    open(closed.dataset.guess, false);
    target.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();
}
