import { CONSUL } from "../kit/consul.ts";
import { workers } from "../stories/workers.ts";

workers(CONSUL);
