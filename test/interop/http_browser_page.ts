/**
 * The requests of a page to its own origin, in a browser. The function is sent to the browser as text,
 * so it may use nothing from outside itself.
 *
 * @module
 */

/** By name: the outcome, or the error's text. */
export type Findings = Readonly<Record<string, unknown>>;

/** Makes every request, one after the other, and posts its findings to `/findings`. */
export async function askForEverything(bigBytes: number): Promise<void> {
  const findings: Record<string, unknown> = {};
  const find = async (name: string, ask: () => Promise<unknown>) => {
    try {
      findings[name] = await ask();
    } catch (error) {
      findings[name] = String(error);
    }
  };
  const versionOf = (path: string) => {
    const entries = performance.getEntriesByName(new URL(path, location.href).href);
    return (entries.at(-1) as PerformanceResourceTiming | undefined)?.nextHopProtocol;
  };
  const text = async (path: string, options: RequestInit = {}) => {
    const response = await fetch(path, { cache: "no-store", ...options });
    return `${response.status} ${await response.text()}`;
  };
  const readerOf = async (path: string, options: RequestInit = {}) => {
    const { body } = await fetch(path, { cache: "no-store", ...options });
    if (!body) throw new Error("no body");
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    return async () => (await reader.read()).value;
  };

  await find("GET", () => text("/echo?a=b"));
  await find("version", () => Promise.resolve(versionOf("/echo?a=b")));
  await find("POST", () => text("/echo", { method: "POST", body: "häuser" }));
  await find("HEAD", async () => {
    const response = await fetch("/five", { method: "HEAD", cache: "no-store" });
    return [response.status, response.headers.get("content-length"), await response.text()];
  });
  await find("large upload", async () => {
    const sent = new Uint8Array(bigBytes).map((_, at) => at * 131 + (at >> 8));
    const response = await fetch("/echo", { method: "POST", body: sent });
    const got = new Uint8Array(await response.arrayBuffer());
    return got.length === sent.length && got.every((byte, at) => byte === sent[at]);
  });
  // The second part is sent when the first was read.
  await find("streamed response", async () => {
    const read = await readerOf("/stream");
    const first = await read();
    await fetch("/go-on");
    return [first, await read(), await read()];
  });
  await find("abort", async () => {
    const aborter = new AbortController();
    const read = await readerOf("/endless", { signal: aborter.signal });
    const first = await read();
    aborter.abort();
    return [first, await read().catch((error: Error) => error.name)];
  });
  await find("after the abort", () => text("/echo"));
  await find("redirect", async () => {
    const response = await fetch("/redirect", { method: "POST", body: "x" });
    return [response.redirected, new URL(response.url).pathname, await response.text()];
  });
  await find("304", async () => {
    const first = await fetch("/tagged").then((response) => response.text());
    const second = await fetch("/tagged").then((response) => response.text());
    return [first, second];
  });
  await find("many at once", async () => {
    const paths = Array.from({ length: 50 }, (_, at) => `/echo?${at}`);
    const answers = await Promise.all(paths.map((path) => text(path)));
    return answers.every((answer, at) => answer === `200 GET ${paths[at]} `);
  });

  const socket = new WebSocket(`${location.origin.replace("http", "ws")}/socket`);
  socket.binaryType = "arraybuffer";
  const events: unknown[] = [];
  let wake = () => {};
  const tell = (event: unknown) => {
    events.push(event);
    wake();
  };
  socket.onopen = () => tell("open");
  socket.onmessage = ({ data }) =>
    tell(typeof data === "string" ? data : [...new Uint8Array(data)]);
  socket.onclose = ({ code, wasClean }) => tell({ code, wasClean });
  const next = async () => {
    if (events.length === 0) await new Promise<void>((resolve) => wake = resolve);
    return events.shift();
  };
  await find("WebSocket", async () => {
    const opened = await next();
    socket.send("grüße");
    const said = await next();
    socket.send(Uint8Array.of(0, 255, 128));
    return [opened, said, await next()];
  });
  await find("WebSocket, many frames", async () => {
    for (let at = 0; at < 1_000; at++) socket.send(String(at));
    for (let at = 0; at < 1_000; at++) if (await next() !== String(at)) return at;
    return true;
  });
  await find("WebSocket's end", () => {
    socket.send("close");
    return next();
  });
  await find("WebSocket, closed by the page", async () => {
    const other = new WebSocket(`${location.origin.replace("http", "ws")}/socket`);
    await new Promise((resolve) => other.onopen = resolve);
    const closed = new Promise<CloseEvent>((resolve) => other.onclose = resolve);
    other.close(4_000, "enough");
    const { code, reason, wasClean } = await closed;
    return { code, reason, wasClean };
  });
  // Chromium streams request bodies over HTTP/2 only.
  if (versionOf("/echo?a=b") === "h2") {
    await find("streamed request", () => {
      const pieces = ["one ", "two ", "three"];
      const body = new ReadableStream({
        pull(controller) {
          const piece = pieces.shift();
          if (piece === undefined) controller.close();
          else controller.enqueue(new TextEncoder().encode(piece));
        },
      });
      return text("/echo", { method: "POST", body, duplex: "half" } as RequestInit);
    });
  }
  await fetch("/findings", { method: "POST", body: JSON.stringify(findings) });
}
