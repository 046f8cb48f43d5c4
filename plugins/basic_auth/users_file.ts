/** Reads a file of users, and again when it changes; the last good users stay in force. @module */

import type { Host } from "../../src/plugin/api.ts";
import { readUsers, type Users } from "./users.ts";

const LIMIT_BYTES = 1_048_576;
const READ_EVERY_MS = 5_000;

/** Throws if the file cannot be used now. Later faults are logged once each. */
export async function followUsers(
  path: string,
  host: Host,
  take: (users: Users) => void,
): Promise<void> {
  let text = await textOf(path);
  take(usersOf(text, path));
  let fault = "";
  host.spawn("users", async (signal) => {
    while (!signal.aborted) {
      await host.clock.sleep(READ_EVERY_MS, signal);
      if (signal.aborted) return;
      try {
        const now = await textOf(path);
        if (now !== text) {
          take(usersOf(now, path));
          host.log.info("users were read again", { path });
        }
        text = now;
        fault = "";
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        if (reason !== fault) host.log.error("the last good users stay in force", { reason });
        fault = reason;
      }
    }
  });
}

function usersOf(text: string, path: string): Users {
  try {
    return readUsers(text.split("\n"));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new TypeError(`Cannot use the users of ${path}: ${reason}`, { cause: error });
  }
}

async function textOf(path: string): Promise<string> {
  try {
    const url = `file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`;
    const bytes = await (await fetch(url)).bytes();
    if (bytes.length > LIMIT_BYTES) throw new RangeError(`it is longer than ${LIMIT_BYTES} bytes`);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new TypeError(`Cannot read ${path}: ${reason}`, { cause: error });
  }
}
