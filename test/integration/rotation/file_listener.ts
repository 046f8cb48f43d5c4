/**
 * One TLS listener of the real process in front of an echo, with credentials in files of a directory that
 * the story fills.
 *
 * @module
 */

import { renameSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Place, startEcho, type TestServer } from "../../kit/wire/echo.ts";
import type { Postern } from "../../kit/process/postern.ts";
import { type PosternTls, startPosternTls } from "../../kit/peers/postern_tls.ts";
import { eventually } from "../../kit/process/process.ts";
import { probeTls, serialOf } from "../../kit/wire/tls_probe.ts";
import type { ClientPair } from "../../kit/wire/tls_session.ts";

export class FileListener implements AsyncDisposable {
  readonly directory: string;
  readonly #proxy: PosternTls;
  readonly #echo: TestServer;

  private constructor(directory: string, proxy: PosternTls, echo: TestServer) {
    this.directory = directory;
    this.#proxy = proxy;
    this.#echo = echo;
  }

  /** `tls`: values of the listener's `tls` that are file names mean this directory. */
  static async start(
    files: Readonly<Record<string, string | Uint8Array>>,
    tls: Readonly<Record<string, unknown>>,
  ): Promise<FileListener> {
    const directory = await mkdtemp(join(tmpdir(), "postern-file-listener-"));
    for (const [name, content] of Object.entries(files)) {
      await writeFile(join(directory, name), content, { mode: 0o600 });
    }
    const echo = await startEcho({ host: "127.0.0.1" });
    const isFile = (value: unknown) =>
      typeof value === "string" && /^(?:[\w-]+\/)*[\w-]+\.\w+$/.test(value);
    const placed = Object.entries(tls).map(([field, value]) => [
      field,
      isFile(value) ? join(directory, String(value)) : value,
    ]);
    const wanted = { source: "file", ...Object.fromEntries(placed) };
    const proxy = await startPosternTls({ inbound: { tls: wanted, target: echo } });
    return new FileListener(directory, proxy, echo);
  }

  get postern(): Postern {
    return this.#proxy.postern;
  }

  /** All of them at once: nothing happens in this process between the first and the last. */
  async write(files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
    const paths = Object.keys(files).map((name) => join(this.directory, name));
    for (const [name, content] of Object.entries(files)) {
      await writeFile(join(this.directory, `${name}.new`), content, { mode: 0o600 });
    }
    for (const path of paths) renameSync(`${path}.new`, path);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.directory, name));
  }

  /** Undefined: it is not open. */
  async place(): Promise<Place | undefined> {
    return await this.#proxy.place("tls_in");
  }

  /** The listener's address, once it is open. */
  async open(options: { readonly timeoutMs?: number } = {}): Promise<Place> {
    return await eventually("the listener is open", () => this.place(), options);
  }

  /** The listener's address, once it shows `leaf` to this client and accepts it. */
  async shows(
    leaf: { readonly certPem: string },
    client: ClientPair,
    options: { readonly timeoutMs?: number } = {},
  ): Promise<Place> {
    return await eventually("the listener shows the certificate", async () => {
      const place = await this.open(options);
      const outcome = await probeTls(place, client);
      if (!outcome.accepted) throw new Error(outcome.alert);
      return outcome.serial === serialOf(leaf.certPem) && place;
    }, { everyMs: 10, ...options });
  }

  /** Log lines that have this in them. */
  lines(text: string): string[] {
    return this.postern.output.split("\n").filter((line) => line.includes(text));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#proxy[Symbol.asyncDispose]();
    } finally {
      await Promise.all([
        this.#echo.close(),
        rm(this.directory, { recursive: true, force: true }),
      ]);
    }
  }
}
