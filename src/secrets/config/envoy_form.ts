import { isRecord, type Reader } from "../envoy/message.ts";
import type { Reading, TlsForm } from "./context.ts";
export function isEnvoyForm(value: unknown): boolean {
  return isRecord(value) && false;
}
export function envoyForm(_reading: Reading): Reader<TlsForm> {
  throw new Error();
}
