// The script of the console. Pages work without it: it follows replies and reads regions again.
// It writes text and adopts nodes of the console's own pages; it never parses markup itself.
"use strict";
(() => {
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const byId = (id) => document.getElementById(id);

  // Regions: elements with `data-live` and an id are replaced by those of the same page, read again.
  let loading = false;
  let wanted = false;
  let timer = 0;

  const isInUse = (region) => {
    const active = document.activeElement;
    if (active && region.contains(active) && active.matches("input, textarea, select")) return true;
    return [...region.querySelectorAll("textarea")].some((area) => area.value !== area.defaultValue);
  };

  // Returns whether the region is that of the page now.
  const replaceRegion = (region, page) => {
    const fresh = page.getElementById(region.id);
    if (!fresh || isInUse(region)) return false;
    if (fresh.isEqualNode(region)) return true;
    const keyOf = (details, at) => details.id || at;
    const open = new Map([...region.querySelectorAll("details")].map((it, at) => [keyOf(it, at), it.open]));
    const focused = [...region.querySelectorAll("a, button, summary")].indexOf(document.activeElement);
    const adopted = document.adoptNode(fresh);
    region.replaceWith(adopted);
    // What the reader has opened stays open.
    [...adopted.querySelectorAll("details")].forEach((it, at) => {
      it.open = open.get(keyOf(it, at)) ?? it.open;
    });
    if (focused >= 0) [...adopted.querySelectorAll("a, button, summary")][focused]?.focus();
    return true;
  };

  const refresh = () => {
    if (loading) { wanted = true; return; }
    loading = true;
    // Parts of the reply that are complete now are in the page that is read after this.
    const complete = document.querySelectorAll("#live [data-complete]");
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.onload = () => {
      const page = request.response;
      if (request.status === 401) return location.reload();
      if (request.status !== 200 || !page) return;
      for (const region of document.querySelectorAll("[data-live]")) {
        const isFresh = replaceRegion(region, page);
        if (isFresh && region.id === "conversation") complete.forEach((it) => it.remove());
      }
    };
    request.onloadend = () => {
      loading = false;
      if (wanted) { wanted = false; refresh(); }
    };
    request.send();
  };

  // Hints come in groups, and one reading serves all of them.
  const refreshSoon = () => {
    if (timer || document.hidden) return;
    timer = setTimeout(() => { timer = 0; refresh(); }, 300);
  };
  // A thread: the reply as it is written.
  const live = byId("live");
  const status = byId("connection");
  const say = (text) => { if (status) status.textContent = text; };
  const texts = new Map();
  const calls = new Map();

  const add = (parent, tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  };

  const complete = (element) => { if (element) element.dataset.complete = ""; };

  // The reply has ended: all of it is in the thread.
  const finish = () => {
    for (const element of live.children) complete(element);
    refresh();
  };

  const bubble = (name) => {
    const message = add(live, "article", "message assistant");
    add(message, "h2", "who", name || "Agent");
    return message;
  };

  const nearEnd = () => innerHeight + scrollY > document.body.scrollHeight - 160;

  const handle = (event) => {
    const follow = nearEnd();
    switch (event.type) {
      case "RUN_STARTED":
        texts.clear();
        calls.clear();
        live.replaceChildren();
        say("");
        refreshSoon();
        break;
      case "TEXT_MESSAGE_START":
        texts.set(event.messageId, add(bubble(event.name), "pre", "text"));
        break;
      case "TEXT_MESSAGE_CONTENT":
        texts.get(event.messageId)?.append(event.delta);
        break;
      case "TEXT_MESSAGE_END":
        complete(texts.get(event.messageId)?.parentElement);
        break;
      case "TOOL_CALL_START": {
        const line = add(live, "p", "call");
        add(line, "span", "tool", event.toolCallName);
        calls.set(event.toolCallId, add(line, "span", "args", " runs"));
        break;
      }
      case "TOOL_CALL_RESULT": {
        const mark = calls.get(event.toolCallId);
        if (mark) mark.textContent = (event.isError ? " failed: " : " done: ") + event.content;
        complete(mark?.parentElement);
        refreshSoon();
        break;
      }
      case "RUN_FINISHED":
        finish();
        break;
      case "RUN_ERROR":
        say(event.message + (event.hint ? ". " + event.hint : ""));
        finish();
        break;
      case "CUSTOM":
        if (event.name === "reply_restarted") texts.get(event.value.messageId)?.replaceChildren();
        else if (event.name === "note") say(event.value.text);
        else if (event.name === "secret_requested") {
          say("The agent asks for the secret " + event.value.name + ": answer it in a terminal.");
        } else refreshSoon();
        break;
    }
    if (follow) scrollTo(0, document.body.scrollHeight);
  };

  // The browser connects again by itself; the partial reply is then sent from its beginning. A
  // browser has few connections for each host, so a page in the background holds none.
  const listen = (path, onMessage) => {
    let source = null;
    const follow = () => {
      if (document.hidden) {
        source?.close();
        source = null;
      } else if (!source) {
        source = new EventSource(path);
        source.onmessage = onMessage;
        source.onerror = () => { if (live) say("The connection is lost. Trying again…"); };
        source.onopen = () => say("");
        refreshSoon();
      }
    };
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => { source?.close(); source = null; });
    addEventListener("pageshow", follow);
  };

  if (live) {
    const path = "/api/threads/" + encodeURIComponent(live.dataset.thread);
    listen(path + "/events", (message) => handle(JSON.parse(message.data)));

    const form = byId("composer");
    const area = byId("text");
    let messageId = form.elements.message_id.value;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const text = area.value;
      if (!text.trim()) return;
      say("Sending…");
      try {
        const reply = await fetch(path + "/messages", {
          method: "POST",
          headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
          body: JSON.stringify({ message_id: messageId, text }),
        });
        if (reply.status === 202) {
          // A message that is sent again keeps its id; the next one has another.
          messageId = crypto.randomUUID();
          area.value = "";
          say("");
          refreshSoon();
        } else {
          say("Not sent: " + ((await reply.json()).error?.message ?? reply.statusText));
        }
      } catch {
        say("Not sent: the kernel cannot be reached. Send it again.");
      }
    });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
  }

  if (!live && document.querySelector("[data-live]")) listen("/api/changes", refreshSoon);
})();
