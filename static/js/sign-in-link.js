// Press the one button for a person who looks at the page. A program that only
// fetches the address, or a browser that renders it ahead of time, spends nothing.
"use strict";

(() => {
  const press = () => document.getElementById("sign-in-link").requestSubmit();
  const look = () => {
    if (document.prerendering || document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", look);
    press();
  };
  document.addEventListener("visibilitychange", look);
  document.addEventListener("prerenderingchange", look, { once: true });
  look();
})();
