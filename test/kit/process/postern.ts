/**
 * The product as its users meet it: a process started from a command line. `$POSTERN_BIN` (or
 * `dist/postern`) where there is one, else the sources, or the bundle of them in `$POSTERN_BUNDLE`, on
 * `$POSTERN_ENGINE` (`bun` or `deno`).
 *
 * @module
 */

import { request } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isExecutable } from "../../../scripts/cache.ts";
import { eventually, type Exit, Process, type ProcessOptions } from "./process.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const START_TIMEOUT_MS = 60_000;

interface AdminReply {
  readonly status: number;
  readonly body: string;
}

/** A running `postern`; disposing kills it, and fails the test if it had died by itself. */
export class Postern {
  readonly process: Process;
  #address: string | undefined;
  #mayEnd = false;

  constructor(process: Process, adminAddress?: string) {
    this.process = process;
    this.#address = adminAddress;
  }

  get output(): string {
    return this.process.output;
  }

  get pid(): number {
    return this.process.pid;
  }

  /** `host:port` of the admin server, from the log. */
  async adminAddress(): Promise<string> {
    if (this.#address) return this.#address;
    const found = await this.process.waitFor(
      /admin server listening"?[^\n]*?address["=:]+\s*([^\s",]+)[^\n]*\n/,
      { timeoutMs: START_TIMEOUT_MS },
    );
    return this.#address = found[1] ?? "";
  }

  async admin(path: string, method = "GET"): Promise<AdminReply> {
    const [host, port] = (await this.adminAddress()).split(":");
    return await new Promise((resolve, reject) => {
      const sent = request({ host, port: Number(port), path, method, agent: false }, (reply) => {
        let body = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
        reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
        reply.on("error", reject);
      });
      sent.setTimeout(20_000, () => {
        const late = new Error(`${path}: no answer in time`);
        sent.destroy(late);
        // Not every runtime reports a reply that has begun.
        reject(late);
      });
      sent.on("error", reject);
      sent.end();
    });
  }

  /** Sum of a metric over its labels; 0 when it is not there. */
  async metric(name: string): Promise<number> {
    const { body } = await this.admin("/stats/prometheus");
    const lines = body.split("\n").filter((line) => line.match(/^[^\s{]+/)?.[0] === name);
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  async waitReady(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    const { timeoutMs = START_TIMEOUT_MS } = options;
    try {
      let last = "";
      await eventually("postern is ready", async () => {
        // A process that has ended will not become ready: nothing to wait for.
        if (this.process.ended) return true;
        const { status, body } = await this.admin("/ready");
        last = `/ready says ${status}, ${body.trim()}`;
        return status === 200;
      }, { timeoutMs }).catch((error) => {
        throw new Error(`${error instanceof Error ? error.message : error}; ${last}`);
      });
      const { ended } = this.process;
      if (ended) throw new Error(`It ended with ${ended.signal ?? ended.code} before it was ready`);
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${this.process.tail()}`);
    }
  }

  /** From now on its end is no failure: the test killed or stopped it. */
  expectEnd(): void {
    this.#mayEnd = true;
  }

  kill(signal: NodeJS.Signals): void {
    if (signal === "SIGTERM" || signal === "SIGKILL") this.#mayEnd = true;
    this.process.kill(signal);
  }

  /** SIGTERM, and how it ended. */
  async stop(): Promise<Exit> {
    this.#mayEnd = true;
    return await this.process.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const died = this.process.ended !== undefined && !this.#mayEnd;
    this.process.kill("SIGKILL");
    const exit = await this.process.exited;
    // Not the six letters that end a temporary directory's name, which may be these.
    const crash = /uncaught|unhandled|(?<!-\w?)panic|segmentation fault|RangeError|TypeError/i;
    if (died || crash.test(this.output)) {
      throw new Error(
        `postern ${died ? `died by itself: ${exit.signal ?? exit.code}` : "printed a crash"}\n` +
          this.process.tail(),
      );
    }
  }
}

interface PosternOptions extends ProcessOptions {
  /** Words in front of the command: `prlimit --nofile=100`. */
  readonly under?: readonly string[];
  /** Whatever is compiled, run the sources on this, unless the environment names something else. */
  readonly engine?: "bun" | "deno";
  /** The admin server's address, for a process whose log does not name it. */
  readonly adminAddress?: string;
}

export function startPostern(args: readonly string[], options: PosternOptions = {}): Postern {
  const [command, ...first] = [...(options.under ?? []), ...posternCommand(options.engine)];
  return new Postern(
    new Process(command ?? "", [...first, ...args], {
      name: `postern ${args.join(" ")}`,
      ...options,
      // Variables that the machine's user has set must not leak into a story.
      env: { ...NO_CONSUL_ENVIRONMENT, ...options.env },
    }),
    options.adminAddress,
  );
}

/** Any command of the program, on the engine that runs the test. */
export function runPostern(args: readonly string[], options: PosternOptions = {}): Postern {
  return startPostern(args, { engine: OWN_ENGINE, ...options });
}

/** It hands its sockets over to the next process; Deno cannot. Call this once it has logged something. */
export function handsOver({ output }: Postern): boolean {
  return /\bbun \d/.test(output);
}

export async function ready(postern: Postern): Promise<Postern> {
  try {
    await postern.waitReady();
    return postern;
  } catch (error) {
    postern.kill("SIGKILL");
    throw error;
  }
}

/** The words that start the product, without its own arguments. */
export function posternCommand(wanted?: "bun" | "deno"): string[] {
  const { POSTERN_BIN } = process.env;
  if (POSTERN_BIN) return [POSTERN_BIN];
  const POSTERN_ENGINE = process.env.POSTERN_ENGINE ?? wanted;
  const binary = join(ROOT, "dist", "postern");
  if (!POSTERN_ENGINE && isExecutable(binary)) return [binary];
  const main = process.env.POSTERN_BUNDLE ?? join(ROOT, "src", "main.ts");
  const deno = "Deno" in globalThis ? process.execPath : "deno";
  if (POSTERN_ENGINE === "deno") return [deno, "run", "-A", "--no-check", main];
  return [join(ROOT, "node_modules", "bun", "bin", "bun.exe"), main];
}

/** The engine that runs the test: stories that need nothing but the clone hold on both engines. */
export const OWN_ENGINE: "bun" | "deno" = "Deno" in globalThis ? "deno" : "bun";

const NO_CONSUL_ENVIRONMENT: Readonly<Record<string, undefined>> = Object.fromEntries(
  Object.keys(process.env).filter((name) => name.startsWith("CONSUL_")).map((name) => [
    name,
    undefined,
  ]),
);
