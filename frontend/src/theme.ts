import {
  createTheme, type CSSVariablesResolver, defaultVariantColorsResolver, InputWrapper, type MantineColorsTuple, type VariantColorsResolver,
} from "@mantine/core";

const ink: MantineColorsTuple = [
  "#f4f4f1", "#e3e3de", "#cfcfc8", "#b0b0a8", "#84847d", "#5d5d58", "#44443f", "#33332f", "#1c1c1a", "#111110",
];

/** Mantine's own is two pixels smaller than our smallest size. */
const SMALL_PRINT = {
  label: {},
  success: {},
  error: { "--input-error-size": "12px" },
  description: { "--input-description-size": "12px" },
};

/** The primary colour is ink itself, so it turns with the theme; Mantine's own contrast looks at one shade only. */
const variantColors: VariantColorsResolver = (input) =>
  input.variant === "filled" && (input.color === undefined || input.color === "ink")
    ? {
        background: "var(--ink)",
        hover: "color-mix(in srgb, var(--ink) 85%, var(--paper))",
        color: "var(--paper)",
        border: "1px solid transparent",
      }
    : defaultVariantColorsResolver(input);

export const theme = createTheme({
  fontFamily: '"Inter Variable", system-ui, sans-serif',
  fontFamilyMonospace: 'ui-monospace, "JetBrains Mono", "DejaVu Sans Mono", monospace',
  fontSizes: { xs: "12px", sm: "13px", md: "13px", lg: "18px", xl: "18px" },
  lineHeights: { xs: "16px", sm: "20px", md: "20px", lg: "24px", xl: "24px" },
  spacing: { xs: "4px", sm: "8px", md: "12px", lg: "16px", xl: "24px" },
  radius: { xs: "2px", sm: "3px", md: "4px", lg: "4px", xl: "4px" },
  defaultRadius: "sm",
  shadows: { xs: "none", sm: "none", md: "none", lg: "none", xl: "none" },
  colors: { ink },
  primaryColor: "ink",
  primaryShade: { light: 8, dark: 1 },
  variantColorResolver: variantColors,
  focusRing: "auto",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    InputWrapper: InputWrapper.extend({ vars: () => SMALL_PRINT }),
    Button: { defaultProps: { size: "xs" } },
    Select: { defaultProps: { size: "xs" } },
    TextInput: { defaultProps: { size: "xs" } },
    PasswordInput: { defaultProps: { size: "xs" } },
    Textarea: { defaultProps: { size: "xs" } },
  },
});

/** Mantine takes its surfaces from our tokens, so there is one palette. */
export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: surfaces,
  dark: surfaces,
});

const surfaces = {
  "--mantine-color-body": "var(--paper)",
  "--mantine-color-text": "var(--ink)",
  "--mantine-color-dimmed": "var(--ink-2)",
  "--mantine-color-default": "var(--paper)",
  "--mantine-color-default-hover": "var(--hover)",
  "--mantine-color-default-color": "var(--ink)",
  "--mantine-color-default-border": "var(--hairline-strong)",
  "--mantine-color-placeholder": "var(--ink-3)",
  "--mantine-color-error": "var(--tone-failed)",
};
