/**
 * Reasons of failed connects in words; the engines' own are `Failed to connect` and a number.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";

const WORDS: Readonly<Record<string, string>> = {
  // Bun also reports this for unreachable hosts.
  ECONNREFUSED: "nothing there takes connections",
  ENOENT: "there is no such socket",
  EACCES: "permission denied",
  ENOTFOUND: "the host name cannot be resolved",
  EHOSTUNREACH: "there is no way to that host",
  ENETUNREACH: "there is no way to that network",
  ETIMEDOUT: "it did not answer",
  EMFILE: "no file descriptor is left; raise the limit of open files",
};

export function connectWords(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  const words = typeof code === "string" ? WORDS[code] : undefined;
  return words ? `${words} (${code})` : messageOf(error);
}
