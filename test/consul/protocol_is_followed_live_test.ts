import { CONSUL } from "../kit/consul.ts";
import { protocol } from "../stories/protocol.ts";

protocol(CONSUL);
