export declare function generate(): Promise<Record<string, string>>;
