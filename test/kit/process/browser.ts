/** Chromium without windows, driven over its DevTools protocol: for stories about pages. @module */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import { deadline, Process } from "./process.ts";

const START_TIMEOUT_MS = 30_000;
const ANSWER_TIMEOUT_MS = 30_000;

type Json = Readonly<Record<string, unknown>>;

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Json;
  readonly result?: Json;
  readonly error?: { readonly message: string };
}

/** Opens `url` in a browser of its own. */
export async function openPage(url: string): Promise<BrowserPage> {
  const directory = await mkdtemp(join(tmpdir(), "postern-chromium-"));
  await using own = new AsyncDisposableStack();
  own.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  const browser = own.use(
    new Process(peer("chromium"), [
      // The container's user is root, the page is ours, and no request goes to the network outside.
      ...["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"],
      ...["--disable-background-networking", `--user-data-dir=${directory}`, "--hide-scrollbars"],
      ...["--remote-debugging-port=0", "about:blank"],
    ]),
  );
  const [, port = ""] = await browser.waitFor(/DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)\//, {
    timeoutMs: START_TIMEOUT_MS,
  });
  const targets = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
  const target = (targets as readonly Readonly<Record<string, string>>[])
    .find(({ type }) => type === "page");
  const socket = new WebSocket(target?.["webSocketDebuggerUrl"] ?? "");
  own.defer(() => socket.close());
  await deadline(new Promise((resolve) => socket.onopen = resolve), START_TIMEOUT_MS);
  const page = new BrowserPage(socket, own.move());
  for (const domain of ["Page", "Runtime", "Log"]) await page.send(`${domain}.enable`);
  await page.visit(url);
  return page;
}

export interface Looks {
  readonly scheme: "light" | "dark";
  readonly width: number;
  readonly height: number;
}

export class BrowserPage implements AsyncDisposable {
  /** Errors in its console: of scripts, of the network, of the content security policy. */
  readonly problems: string[] = [];
  readonly #socket: WebSocket;
  readonly #own: AsyncDisposableStack;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #loaded: () => void = () => {};
  #sent = 0;

  constructor(socket: WebSocket, own: AsyncDisposableStack) {
    this.#socket = socket;
    this.#own = own;
    socket.onmessage = ({ data }) => this.#take(JSON.parse(String(data)));
  }

  #take(message: Message): void {
    const { id, method, params } = message;
    if (id !== undefined) this.#waiting.get(id)?.(message);
    else if (method === "Page.loadEventFired") this.#loaded();
    else if (method === "Runtime.exceptionThrown") this.problems.push(JSON.stringify(params));
    else if (method === "Log.entryAdded" || method === "Runtime.consoleAPICalled") {
      const text = JSON.stringify(params);
      if (/"(?:level|type)":"(?:error|warning)"/.test(text)) this.problems.push(text);
    }
  }

  async send(method: string, params: Json = {}): Promise<Json> {
    const id = ++this.#sent;
    const answer = new Promise<Message>((resolve) => this.#waiting.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, method, params }));
    const message = await deadline(answer, ANSWER_TIMEOUT_MS);
    this.#waiting.delete(id);
    if (!message) throw new Error(`Cannot have an answer to ${method}: none came in time`);
    if (message.error) throw new Error(`Cannot do ${method}: ${message.error.message}`);
    return message.result ?? {};
  }

  /** Resolves once the page is loaded. */
  async visit(url: string): Promise<void> {
    const loaded = new Promise<true>((resolve) => this.#loaded = () => resolve(true));
    await this.send("Page.navigate", { url });
    assert.ok(await deadline(loaded, ANSWER_TIMEOUT_MS), `${url} was not loaded`);
  }

  /** The value of an expression in the page; a promise is awaited. */
  async evaluate<T>(expression: string): Promise<T> {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", options);
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { readonly value: T }).value;
  }

  async look({ scheme, width, height }: Looks): Promise<void> {
    const size = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.send("Emulation.setDeviceMetricsOverride", size);
    const features = [{ name: "prefers-color-scheme", value: scheme }];
    await this.send("Emulation.setEmulatedMedia", { features });
  }

  /** The whole page, as PNG. */
  async screenshot(file: string): Promise<void> {
    const options = { format: "png", captureBeyondViewport: true, optimizeForSpeed: false };
    const { cssContentSize } = await this.send("Page.getLayoutMetrics");
    const { width, height } = cssContentSize as { readonly width: number; readonly height: number };
    const clip = { x: 0, y: 0, width, height, scale: 1 };
    const { data } = await this.send("Page.captureScreenshot", { ...options, clip });
    await writeFile(file, String(data), "base64");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#own.disposeAsync();
  }
}
