// From disk a browser starts no worker. The search's runs in a frame of its own there.

if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const waiting = [];
      this.send = (data) => waiting.push(data);
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<script>
        const listeners = [];
        self.addEventListener = (type, listener) => type === "message" && listeners.push(listener);
        self.importScripts = (...urls) => Promise.all(urls.map((src) => new Promise((onload, onerror) =>
          document.head.append(Object.assign(document.createElement("script"), { src, onload, onerror })))));
        self.postMessage = (data) => parent.dispatchEvent(new CustomEvent("from worker", { detail: { from: self, data } }));
        self.receive = (data) => listeners.forEach((each) => each({ data }));
      <\/script><script src="${url}"><\/script>`;
      window.addEventListener("from worker", ({ detail }) => {
        if (detail.from !== this.frame.contentWindow) return;
        const event = new MessageEvent("message", { data: detail.data });
        if (this.onmessage) this.onmessage(event);
        this.dispatchEvent(event);
      });
      this.frame.onload = () => {
        this.send = (data) => this.frame.contentWindow.receive(data);
        waiting.forEach(this.send);
      };
      document.addEventListener("DOMContentLoaded", () => document.body.append(this.frame), { once: true });
      if (document.body) document.body.append(this.frame);
    }

    postMessage(data) {
      this.send(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
