import { CONSUL } from "../kit/consul.ts";
import { hashedRequests } from "../stories/hashed_requests.ts";

hashedRequests(CONSUL);
