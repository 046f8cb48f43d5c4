/**
 * Chromium before a pair of sidecars: over HTTP/1.1 in clear, and over HTTP/2 where the upstream's listener
 * speaks TLS to those who call it. The application speaks HTTP/1.1.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { peer } from "../../scripts/peers.ts";
import { parseCertificate } from "../../src/identity/mod.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import {
  answerOf,
  type RawAnswer,
  type RawMessage,
  startRawOrigin,
  valuesOf,
} from "../kit/wire/http_raw.ts";
import { CLOSED_BY_ECHO, echoWebSocket } from "../kit/wire/http_websocket.ts";
import { deadline, Process } from "../kit/process/process.ts";
import { askForEverything, type Findings } from "./http_browser_page.ts";

const BIG_BYTES = 3_000_000;
const BROWSE_TIMEOUT_MS = 60_000;
const PAGE = `<!doctype html><script>(${askForEverything})(${BIG_BYTES})</script>`;
const CHUNKED = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";

/**
 * Answers the page's requests. `findings` resolves with the page's report, `aborted` once the request
 * that the page aborts is aborted.
 */
class Site {
  readonly findings: Promise<Findings>;
  readonly aborted: Promise<true>;
  readonly answer: RawAnswer = (request, socket) => this.#answer(request, socket);
  /** Called while a WebSocket is open; the page's next message waits for it. */
  onSocket: () => Promise<unknown> = () => Promise.resolve();
  #found: (findings: Findings) => void = () => {};
  #wasAborted: (yes: true) => void = () => {};
  #streaming: Socket | undefined;

  constructor() {
    this.findings = new Promise((resolve) => this.#found = resolve);
    this.aborted = new Promise((resolve) => this.#wasAborted = resolve);
  }

  #answer(request: RawMessage, socket: Socket): string | undefined {
    const [method = "", target = ""] = request.head.split(" ");
    switch (target.split("?")[0]) {
      case "/":
        return answerOf(PAGE, "HTTP/1.1 200 OK\r\nContent-Type: text/html");
      case "/echo":
        return answerOf(method === "GET" ? `GET ${target} ` : request.body);
      case "/five":
        return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
      case "/stream":
        this.#streaming = socket;
        socket.write(`${CHUNKED}5\r\nfirst\r\n`);
        return undefined;
      case "/go-on":
        this.#streaming?.end("6\r\nsecond\r\n0\r\n\r\n");
        return answerOf("");
      case "/endless":
        socket.once("close", () => this.#wasAborted(true));
        socket.write(`${CHUNKED}5\r\nfirst\r\n`);
        return undefined;
      case "/redirect":
        return answerOf("", "HTTP/1.1 303 See Other\r\nLocation: /echo");
      case "/tagged":
        return valuesOf(request, "if-none-match")[0] === '"1"'
          ? 'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
          : answerOf("tagged", 'HTTP/1.1 200 OK\r\nETag: "1"\r\nCache-Control: no-cache');
      case "/socket":
        assert.ok(echoWebSocket(socket, request.head));
        socket.pause();
        void this.onSocket().finally(() => socket.resume());
        return undefined;
      case "/findings":
        this.#found(JSON.parse(Buffer.from(request.body, "latin1").toString()));
        return answerOf("");
      default:
        return answerOf("", "HTTP/1.1 404 Not Found");
    }
  }
}

/** One connection in `/connections`. */
interface Carrier {
  readonly http?: { readonly version: string; readonly oldest: readonly { path: string }[] };
}

/** Chromium, with its files in `directory`, shows the page; the page's script reports by itself. */
function browse(url: string, directory: string, words: readonly string[] = []): Process {
  return new Process(peer("chromium"), [
    // The container's user is root, the page is ours, and no request goes to the network outside.
    ...["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"],
    ...["--disable-background-networking", `--user-data-dir=${join(directory, "chromium")}`],
    ...["--remote-debugging-port=0", ...words, url],
  ]);
}

for (const version of ["http/1.1", "h2"] as const) {
  test(`a browser has its fetches and WebSockets over ${version}`, async () => {
    const directory = await mkdtemp(join(tmpdir(), "postern-browser-"));
    await using own = new AsyncDisposableStack();
    own.defer(() => rm(directory, { recursive: true, force: true }));
    const isTls = version === "h2";
    const leaf = createAuthority().issueLeaf({
      service: "x",
      overrides: { uris: [], dnsNames: ["edge.test"] },
    });
    const [cert, key] = [join(directory, "edge.pem"), join(directory, "edge.key")];
    await writeFile(cert, leaf.certPem);
    await writeFile(key, leaf.keyPem, { mode: 0o600 });
    const site = new Site();
    const origin = own.use(await startRawOrigin(site.answer));
    const { upstream: { host, port }, web } = own.use(
      await startFilePair({
        protocol: "http",
        apps: [origin],
        upstream: isTls
          ? {
            listenerTls: {
              certificates: [{ source: "file", cert, key }],
              validation: { source: "none" },
            },
          }
          : {},
      }),
    );
    let whileOpen: Promise<{ readonly body: string }> | undefined;
    site.onSocket = () => whileOpen ??= web.admin("/connections");
    const pin = createHash("sha256").update(parseCertificate(leaf.certDer).spki).digest("base64");
    const browser = own.use(
      browse(`${isTls ? "https" : "http"}://${host}:${port}/`, directory, [
        `--ignore-certificate-errors-spki-list=${pin}`,
      ]),
    );
    const findings = await deadline(site.findings, BROWSE_TIMEOUT_MS);
    assert.deepEqual(findings, {
      GET: "200 GET /echo?a=b ",
      version,
      POST: "200 häuser",
      HEAD: [200, "5", ""],
      "large upload": true,
      "streamed response": ["first", "second", null],
      abort: ["first", "AbortError"],
      "after the abort": "200 GET /echo ",
      redirect: [true, "/echo", "GET /echo "],
      304: ["tagged", "tagged"],
      "many at once": true,
      WebSocket: ["open", "grüße", [0, 255, 128]],
      "WebSocket, many frames": true,
      "WebSocket's end": { code: CLOSED_BY_ECHO, wasClean: true },
      "WebSocket, closed by the page": { code: 4_000, reason: "enough", wasClean: true },
      ...isTls ? { "streamed request": "200 one two three" } : {},
    }, browser.tail());
    assert.ok(await deadline(site.aborted, BROWSE_TIMEOUT_MS), "the application saw no abort");
    const tags = origin.requests.filter(({ head }) => head.startsWith("GET /tagged "))
      .map((request) => valuesOf(request, "if-none-match"));
    assert.deepEqual(tags, [[], ['"1"']]);
    assert.deepEqual(origin.faults, []);
    // Over HTTP/2 by extended CONNECT (RFC 8441), not over a connection of its own.
    const { connections = [] } = JSON.parse((await whileOpen)?.body ?? "{}");
    const carriers = (connections as readonly Carrier[]).filter(({ http }) => {
      return http?.oldest.some(({ path }) => path === "/socket");
    });
    assert.deepEqual(carriers.map(({ http }) => http?.version), [isTls ? "HTTP/2" : "HTTP/1.1"]);
  });
}
