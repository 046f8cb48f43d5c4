/** Notifies systemd. Where `systemd-notify` has to send, `NotifyAccess=all` is needed. @module */

import { execFile } from "node:child_process";
import { type Clock, type Log, messageOf, printable, type Timer } from "../../base/mod.ts";
import { sendUnixDatagram } from "../../net/mod.ts";

interface NotifierOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly send?: typeof sendUnixDatagram;
  readonly runNotifyProgram?: (path: string, text: string) => Promise<void>;
}

const PROGRAM_TIMEOUT_MS = 5_000;

/** Does nothing without `NOTIFY_SOCKET`. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #path: string;
  readonly #send: typeof sendUnixDatagram;
  readonly #runProgram: (path: string, text: string) => Promise<void>;
  /** Programs are run one after the other, so that messages keep their order. */
  #queue: Promise<void> = Promise.resolve();
  #watchdog: Timer | undefined;
  #failed = false;
  #closed = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#path = options.env.NOTIFY_SOCKET ?? "";
    this.#send = options.send ?? sendUnixDatagram;
    this.#runProgram = options.runNotifyProgram ?? runNotifyProgram;
  }

  /** A supervisor listens. */
  get enabled(): boolean {
    return this.#path !== "";
  }

  ready(status: string): void {
    this.#notify(`READY=1\n${statusLine(status)}`);
  }

  reloading(status: string): void {
    this.#notify(`RELOADING=1\n${statusLine(status)}`);
  }

  stopping(status: string): void {
    this.#notify(`STOPPING=1\n${statusLine(status)}`);
  }

  /** The service goes on in another process; this one must still be the main process. */
  mainProcess(pid: number): void {
    this.#notify(`MAINPID=${pid}`);
  }

  status(status: string): void {
    this.#notify(statusLine(status));
  }

  /** Gives the supervisor copies of descriptors, for the next start of the service. False: it has none. */
  storeDescriptors(name: string, descriptors: readonly number[]): boolean {
    return this.enabled &&
      this.#send(this.#path, `FDSTORE=1\nFDNAME=${name}`, descriptors) === "sent";
  }

  /** The supervisor closes its copies of this name. */
  removeDescriptors(name: string): void {
    this.#notify(`FDSTOREREMOVE=1\nFDNAME=${name}`);
  }

  /** Sends signs of life while `healthy`; without them systemd's watchdog ends this process. */
  startWatchdog(healthy: () => boolean): void {
    const { env, pid } = this.#options;
    const intervalUs = Number(env.WATCHDOG_USEC ?? "0");
    const forUs = env.WATCHDOG_PID === undefined || env.WATCHDOG_PID === String(pid);
    if (!this.enabled || !forUs || !Number.isSafeInteger(intervalUs) || intervalUs <= 0) return;
    const beat = () => {
      if (this.#closed) return;
      if (healthy()) this.#notify("WATCHDOG=1");
      else this.#options.log.error("watchdog not answered: this process is not healthy");
      this.#watchdog = this.#options.clock.after(Math.max(1, intervalUs / 2_000), beat);
    };
    beat();
  }

  /** Ends the watchdog's messages and waits for pending ones. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watchdog?.cancel();
    await this.#queue;
  }

  #notify(text: string): void {
    if (!this.enabled) return;
    const result = this.#send(this.#path, text);
    if (result === "sent") return;
    if (result === "failed") return this.#fail("the socket did not take the message");
    this.#queue = this.#queue
      .then(() => this.#runProgram(this.#path, text))
      .catch((error) => this.#fail(messageOf(error)));
  }

  /** Logged once: a supervisor that does not listen would fill the log. */
  #fail(reason: string): void {
    if (!this.#failed) this.#options.log.warn("cannot notify the supervisor", { reason });
    this.#failed = true;
  }
}

function statusLine(status: string): string {
  return `STATUS=${printable(status.replaceAll("\n", " "))}`;
}

function runNotifyProgram(path: string, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(
      "systemd-notify",
      text.split("\n"),
      { env: { NOTIFY_SOCKET: path }, timeout: PROGRAM_TIMEOUT_MS },
      (error) => error ? reject(error) : resolve(),
    );
  });
}
